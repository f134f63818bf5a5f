package codec

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func vectorMessage() *Message {
	props := AppendProperty(nil, PropKeys, "K1")
	props = AppendProperty(props, "k", "v")
	return &Message{Topic: "T", Body: []byte("hi"), Properties: props, PhyOffset: 0x1122334455,
		BornHost: netip.MustParseAddrPort("1.2.3.4:5"), StoreHost: netip.MustParseAddrPort("10.0.0.1:10911")}
}

// TestRecordVector is the message of spec messages.md §16. Java's encoder copies the CRC of the message, 0
// there; ours computes it.
func TestRecordVector(t *testing.T) {
	want := unhex(t, "0000006A DAA320A7 00000000 00000000 00000000 0000000000000000 0000001122334455 00000000"+
		"0000000000000000 01020304 00000005 0000000000000000 0A000001 00002A9F 00000000 0000000000000000"+
		"00000002 6869 01 54 000C 4B455953 01 4B31 02 6B 01 76 02")
	binary.BigEndian.PutUint32(want[8:], BodyCRC([]byte("hi")))

	m := vectorMessage()
	got, err := AppendRecordV1(nil, m)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, len(want), RecordBytes(m))

	got, err = AppendRecord([]byte("before"), m)
	require.NoError(t, err)
	PatchRecord(got[6:], 0, 0x1122334455, 0)
	require.Equal(t, want, got[6:])
}

func TestCRCVector(t *testing.T) {
	require.EqualValues(t, 907060870, BodyCRC([]byte("hello")))
	require.Zero(t, BodyCRC(nil))
}

func TestRecordMinimum(t *testing.T) {
	rec, err := AppendRecord(nil, &Message{})
	require.NoError(t, err)
	require.Len(t, rec, MinRecordBytes)
	r, err := ParseRecord(rec, true)
	require.NoError(t, err)
	require.Equal(t, "0.0.0.0:0", r.BornHost.String())
}

func TestRecordRoundTrip(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("192.168.0.1:1234"), netip.MustParseAddrPort("[2001:db8::1]:65535")
	mapped := netip.MustParseAddrPort("[::ffff:192.168.0.1]:1234")
	f := func(topic string, born, store netip.AddrPort, magic uint32, sysFlag int32) {
		t.Helper()
		m := &Message{Topic: topic, QueueID: 7, Flag: -1, SysFlag: SysFlagCompressed | SysFlagStoreHostV6 |
			SysFlagBornHostV6, BornTimestamp: 1, BornHost: born, StoreHost: store, ReconsumeTimes: 3,
			PreparedTransactionOffset: 99, Body: []byte("body"), Properties: AppendProperty(nil, PropTags, "A")}
		rec, err := AppendRecord(nil, m)
		require.NoError(t, err)
		require.Equal(t, len(rec), RecordBytes(m))
		PatchRecord(rec, 11, 22, 33)
		r, err := ParseRecord(append(rec, 1, 2, 3), true)
		require.NoError(t, err)
		require.Equal(t, len(rec), r.TotalSize)
		require.Equal(t, magic, r.Magic)
		require.Equal(t, SysFlagCompressed|sysFlag, r.SysFlag)
		got := r.Message()
		want := *m
		want.SysFlag, want.QueueOffset, want.PhyOffset, want.StoreTimestamp = r.SysFlag, 11, 22, 33
		want.TagsCode, want.WaitStoreMsgOK = 65, true
		want.BornHost = netip.AddrPortFrom(born.Addr().Unmap(), born.Port())
		want.StoreHost = netip.AddrPortFrom(store.Addr().Unmap(), store.Port())
		require.Equal(t, &want, got)
		v, ok := got.Property(PropTags)
		require.True(t, ok)
		require.Equal(t, "A", string(v))
		_, ok = r.Property(PropKeys)
		require.False(t, ok)
	}
	f("T", v4, v4, MagicV1, 0)
	f("T", v6, v4, MagicV1, SysFlagBornHostV6)
	f("T", v4, v6, MagicV1, SysFlagStoreHostV6)
	f("T", v6, v6, MagicV1, SysFlagBornHostV6|SysFlagStoreHostV6)
	f("T", mapped, mapped, MagicV1, 0)
	f(strings.Repeat("t", 127), v4, v4, MagicV1, 0)
	f(strings.Repeat("t", 128), v4, v6, MagicV2, SysFlagStoreHostV6)
	f(strings.Repeat("t", 255), v6, v6, MagicV2, SysFlagBornHostV6|SysFlagStoreHostV6)
}

func TestRecordLimits(t *testing.T) {
	dst := []byte("kept")
	f := func(m *Message, want error, encode func([]byte, *Message) ([]byte, error)) {
		t.Helper()
		got, err := encode(dst, m)
		require.ErrorIs(t, err, want)
		require.Equal(t, "kept", string(got))
	}
	f(&Message{Topic: strings.Repeat("t", 256)}, ErrTopicTooLong, AppendRecord)
	f(&Message{Topic: strings.Repeat("t", 128)}, ErrTopicTooLong, AppendRecordV1)
	f(&Message{Properties: make([]byte, 32768)}, ErrPropertiesTooLong, AppendRecord)
	f(&Message{Body: make([]byte, MaxFrameBytes+1)}, ErrBodyTooLong, AppendRecord)

	rec, err := AppendRecord(nil, &Message{Properties: make([]byte, 32767)})
	require.NoError(t, err)
	r, err := ParseRecord(rec, false)
	require.NoError(t, err)
	require.Len(t, r.Properties, 32767)
}

func TestBlankRecord(t *testing.T) {
	b := AppendBlank(nil, 1000)
	require.Len(t, b, BlankRecordBytes)
	r, err := ParseRecord(b, true)
	require.NoError(t, err)
	require.True(t, r.IsBlank())
	require.Equal(t, Record{TotalSize: 1000, Magic: MagicBlank}, r)
	size, magic := RecordSize(b)
	require.Equal(t, 1000, size)
	require.Equal(t, MagicBlank, magic)

	_, err = ParseRecord(AppendBlank(nil, 7), true)
	require.ErrorIs(t, err, ErrCorrupt)
}

// TestRecordCorruption changes every byte of a record in turn: a length is never believed beyond the bytes
// there are, and a view never leaves them.
func TestRecordCorruption(t *testing.T) {
	m := vectorMessage()
	m.BornHost = netip.MustParseAddrPort("[2001:db8::1]:1")
	rec, err := AppendRecord(nil, m)
	require.NoError(t, err)
	for i := range rec {
		for _, x := range []byte{1, 0x10, 0x20, 0x80, 0xFF} {
			bad := append([]byte(nil), rec...)
			bad[i] ^= x
			r, err := ParseRecord(bad, true)
			if err != nil {
				require.True(t, IsCorrupt(err), "byte %d", i)
				require.Equal(t, Record{}, r)
				continue
			}
			require.LessOrEqual(t, r.TotalSize, len(bad))
			require.Equal(t, "hi", string(r.Body), "byte %d: the checksum covers the body", i)
		}
	}
	for i := range rec {
		_, err := ParseRecord(rec[:i], false)
		require.ErrorIs(t, err, ErrCorrupt, "%d bytes", i)
	}
}

func TestRecordRefuses(t *testing.T) {
	f := func(name string, change func(b []byte)) {
		t.Helper()
		rec, err := AppendRecord(nil, vectorMessage())
		require.NoError(t, err)
		change(rec)
		_, err = ParseRecord(rec, false)
		require.ErrorIs(t, err, ErrCorrupt, name)
	}
	put := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) }
	}
	f("zeros", func(b []byte) { clear(b) })
	f("size 0", put(0, 0))
	f("negative size", put(0, 0x80000000))
	f("size of 90", put(0, 90))
	f("size beyond the bytes", put(0, 107))
	f("size one short", put(0, 105))
	f("other magic", put(4, 0xDAA320A8))
	f("body beyond the record", put(84, 0x7FFFFFFF))
	f("negative body", put(84, 0xFFFFFFFF))
	f("topic of 128", func(b []byte) { b[90] = 0x80 })
	f("topic beyond the record", func(b []byte) { b[90] = 127 })
	f("negative properties", func(b []byte) { b[92] = 0x80 })
	f("properties beyond the record", func(b []byte) { b[93] = 13 })
	f("bytes behind the properties", func(b []byte) { b[93] = 11 })
	f("IPv6 flag without room", func(b []byte) { put(recordSysFlagAt, uint32(SysFlagBornHostV6))(b) })
}

// TestGoldenRecords reads messages that Java stored, and encodes them again byte for byte.
func TestGoldenRecords(t *testing.T) {
	files, err := filepath.Glob("testdata/records/*.bin")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for rest := data; len(rest) > 0; {
			r, err := ParseRecord(rest, true)
			require.NoError(t, err, file)
			m := r.Message()
			encode := AppendRecord
			if r.Magic == MagicV1 {
				encode = AppendRecordV1
			}
			again, err := encode(nil, m)
			require.NoError(t, err, file)
			PatchRecord(again, r.QueueOffset, r.PhyOffset, r.StoreTimestamp)
			require.Equal(t, rest[:r.TotalSize], again, file)
			requireGoldenBody(t, file, m)
			rest = rest[r.TotalSize:]
		}
	}
}

func requireGoldenBody(t *testing.T, file string, m *Message) {
	body, err := DecompressBody(m.Body, m.SysFlag, MaxDecompressedBytes)
	require.NoError(t, err, file)
	if strings.Contains(file, "compress-") {
		require.Contains(t, string(body), "compress me", file)
		require.Less(t, len(m.Body), len(body), file)
	}
	if m.SysFlag&SysFlagInnerBatch != 0 {
		n, err := CountBatch(body)
		require.NoError(t, err, file)
		inner, ok := m.Property(PropInnerNum)
		require.True(t, ok, file)
		want, ok := parseInt(inner)
		require.True(t, ok, file)
		require.EqualValues(t, want, n, file)
	}
	if name, ok := m.Property(PropUniqKey); ok {
		_, err := ParseUniqueID(string(name))
		require.NoError(t, err, file)
	}
}
