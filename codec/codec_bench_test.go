package codec

import (
	"net/netip"
	"testing"
	"time"
)

// benchSendCommand is a SEND_MESSAGE_V2 as a Java client makes it.
func benchSendCommand(t SerializeType) *Command {
	c := &Command{Code: ReqSendMessageV2, Version: AnnouncedVersion, Opaque: 12345, Type: t}
	h := SendMessageHeader{ProducerGroup: []byte("please_rename_unique_group_name"), Topic: []byte("TopicTest"),
		DefaultTopic: []byte(AutoCreateTopicKey), DefaultTopicQueueNums: 4, QueueID: 3,
		BornTimestamp: 1700000000000,
		BrokerName:    []byte("broker-a")}
	props := AppendProperty(nil, PropUniqKey, "7F00000100002A9F0000000000000001")
	props = AppendProperty(props, PropWaitStoreMsgOK, "true")
	props = AppendProperty(props, PropTags, "TagA")
	h.Properties = Field{Value: props}
	h.Encode(c)
	c.Body = make([]byte, 1024)
	return c
}

func benchPullCommand(t SerializeType) *Command {
	c := &Command{Code: ReqPullMessage, Version: AnnouncedVersion, Opaque: 12346, Type: t}
	h := PullMessageHeader{ConsumerGroup: []byte("please_rename_unique_group_name"), Topic: []byte("TopicTest"),
		QueueID: 3, QueueOffset: 123456, MaxMsgNums: 32, SysFlag: PullFlagSuspend | PullFlagCommitOffset,
		CommitOffset: 123400, SuspendTimeoutMillis: 15000, SubVersion: 1700000000000,
		RequestSource: RequestSourceSDK,
		BrokerName:    []byte("broker-a")}
	h.Encode(c)
	return c
}

var benchHost = netip.MustParseAddrPort("192.168.1.10:10911")

func BenchmarkDecodeSend(b *testing.B) {
	for _, t := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
		b.Run(t.String(), func(b *testing.B) {
			frame := benchSendCommand(t).AppendTo(nil)
			var c Command
			var h SendMessageHeader
			b.ReportAllocs()
			for b.Loop() {
				f, _, _, err := SplitFrame(frame, MaxFrameBytes)
				if err != nil {
					b.Fatal(err)
				}
				if err := c.Decode(f); err != nil {
					b.Fatal(err)
				}
				if err := h.Decode(&c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodePull(b *testing.B) {
	for _, t := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
		b.Run(t.String(), func(b *testing.B) {
			frame := benchPullCommand(t).AppendTo(nil)
			var c Command
			var h PullMessageHeader
			b.ReportAllocs()
			for b.Loop() {
				f, _, _, err := SplitFrame(frame, MaxFrameBytes)
				if err != nil {
					b.Fatal(err)
				}
				if err := c.Decode(f); err != nil {
					b.Fatal(err)
				}
				if err := h.Decode(&c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSplitFrames is what a busy producer's read brings: 32 sends of 1 KiB in one window; time is of all of them.
func BenchmarkSplitFrames(b *testing.B) {
	var window []byte
	for range 32 {
		window = benchSendCommand(SerializeJSON).AppendTo(window)
	}
	b.SetBytes(int64(len(window)))
	b.ReportAllocs()
	for b.Loop() {
		for rest := window; len(rest) > 0; {
			_, n, _, err := SplitFrame(rest, MaxFrameBytes)
			if err != nil || n == 0 {
				b.Fatal(n, err)
			}
			rest = rest[n:]
		}
	}
}

// BenchmarkAppendCommand is the general encoder, for all that has no encoder of its own.
func BenchmarkAppendCommand(b *testing.B) {
	for _, t := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
		b.Run(t.String(), func(b *testing.B) {
			c := benchSendCommand(t)
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				buf = c.AppendTo(buf[:0])
			}
		})
	}
}

func BenchmarkAppendSendResponse(b *testing.B) {
	r := SendResponse{StoreHost: benchHost, PhyOffset: 123456789, QueueID: 3, QueueOffset: 1000000,
		TransactionID: []byte("7F00000100002A9F0000000000000001"), Region: DefaultRegionID, TraceOn: true}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendSendResponse(buf[:0], SerializeJSON, 12345, &r)
	}
}

func BenchmarkAppendPullResponse(b *testing.B) {
	zero := int32(0)
	r := PullResponse{NextBeginOffset: 1000032, MaxOffset: 2000000, TopicSysFlag: &zero, GroupSysFlag: &zero}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendPullResponse(buf[:0], SerializeJSON, 12345, RespSuccess, "FOUND", &r, 65536)
	}
}

func benchMessage() *Message {
	props := AppendProperty(nil, PropUniqKey, "7F00000100002A9F0000000000000001")
	props = AppendProperty(props, PropTags, "TagA")
	props = AppendProperty(props, PropCluster, "DefaultCluster")
	return &Message{Topic: "TopicTest", QueueID: 3, BornTimestamp: 1700000000000, BornHost: benchHost,
		StoreHost: benchHost, Body: make([]byte, 1024), Properties: props}
}

func BenchmarkAppendRecord(b *testing.B) {
	m := benchMessage()
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = AppendRecord(buf[:0], m)
		PatchRecord(buf, 1, 2, 3)
	}
}

func BenchmarkParseRecord(b *testing.B) {
	rec, err := AppendRecord(nil, benchMessage())
	if err != nil {
		b.Fatal(err)
	}
	for _, crc := range []bool{false, true} {
		name := "NoCRC"
		if crc {
			name = "CRC"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseRecord(rec, crc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLookupProperty(b *testing.B) {
	props := benchMessage().Properties
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := LookupProperty(props, PropTags); !ok {
			b.Fatal("no tags")
		}
	}
}

func BenchmarkUniqueID(b *testing.B) {
	at := time.Date(2024, 2, 3, 4, 5, 6, 0, time.Local)
	g := NewUniqueIDGenerator(netip.MustParseAddr("10.1.2.3"), 1, 2, func() time.Time { return at })
	buf := make([]byte, 0, MessageIDCharsV6)
	b.ReportAllocs()
	for b.Loop() {
		buf = g.Append(buf[:0])
	}
}

func BenchmarkJavaHash(b *testing.B) {
	tag := []byte("TagA-of-some-length")
	b.ReportAllocs()
	for b.Loop() {
		JavaHashBytes(tag)
	}
}
