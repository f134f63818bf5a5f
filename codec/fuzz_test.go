package codec

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// seedFrames adds the golden frames and some of our own.
func seedFrames(f *testing.F, add func(frame []byte)) {
	files, err := filepath.Glob("testdata/wire/*/*.bin")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		add(data)
	}
	for _, t := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
		add(benchSendCommand(t).AppendTo(nil))
		add(benchPullCommand(t).AppendTo(nil))
	}
}

// FuzzFrame: SplitFrame never panics, never consumes more than there is, wants more only if there is less,
// and what it gives are the bytes of the frame.
func FuzzFrame(f *testing.F) {
	seedFrames(f, func(frame []byte) { f.Add(frame) })
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, n, need, err := SplitFrame(data, MaxFrameBytes)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		if n == 0 {
			require.Greater(t, need, len(data))
			require.LessOrEqual(t, need, MaxFrameBytes)
			return
		}
		require.LessOrEqual(t, n, len(data))
		require.Equal(t, n, 8+len(frame.Header)+len(frame.Body))
		require.Equal(t, data[8:n], append(append([]byte{}, frame.Header...), frame.Body...))
	})
}

// FuzzCommand: decoding any header never panics; its fields lie within the header; encoding the result and
// decoding it again gives the same command, in either encoding. The send and pull decoders take any command.
func FuzzCommand(f *testing.F) {
	seedFrames(f, func(data []byte) {
		frame, _, _, err := SplitFrame(data, MaxFrameBytes)
		require.NoError(f, err)
		f.Add(uint8(frame.Type), frame.Header)
		if at := bytes.Index(frame.Header, []byte(`"extFields":{"`)); at > 0 {
			f.Add(uint8(0), append([]byte{'{'}, frame.Header[at:]...))
		}
	})
	f.Fuzz(func(t *testing.T, typ uint8, header []byte) {
		var c Command
		err := c.Decode(Frame{Type: SerializeType(typ & 1), Header: header})
		if typ&1 == 0 {
			requireBothScanners(t, header, &c, err)
		}
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		size := 0
		for i := range c.Fields {
			size += len(c.Fields[i].Key) + len(c.Fields[i].Value)
		}
		require.LessOrEqual(t, size, len(header))
		_ = c.String()
		requireStable(t, &c)
		for _, code := range sendCodes {
			c.Code = code
			var h SendMessageHeader
			if h.Decode(&c) == nil {
				d := &Command{Code: code}
				h.Encode(d)
				var again SendMessageHeader
				require.NoError(t, again.Decode(d))
				require.Equal(t, h.Properties.Text(), again.Properties.Text())
				h.Properties, again.Properties = Field{}, Field{}
				h.scratch, again.scratch = nil, nil
				require.Equal(t, h.Topic, again.Topic)
				require.Equal(t, h.QueueID, again.QueueID)
			}
		}
		var p PullMessageHeader
		_ = p.Decode(&c)
	})
}

// requireBothScanners decodes a JSON header once more with a blank that makes the tolerant scanner read all fields, and
// expects the same of it as of the loop for compact text.
func requireBothScanners(t *testing.T, header []byte, c *Command, err error) {
	const compact = `{"extFields":{"`
	if !bytes.HasPrefix(header, []byte(compact)) || bytes.Count(header, []byte("extFields")) != 1 ||
		len(c.Fields) == MaxFields {
		return
	}
	var d Command
	slow := append([]byte(`{"extFields":{"x" :"y","`), header[len(compact):]...)
	require.Equal(t, err == nil, d.Decode(Frame{Header: slow}) == nil)
	if err == nil {
		require.Equal(t, len(c.Fields)+1, len(d.Fields))
		for i := range c.Fields {
			require.Equal(t, c.Fields[i], d.Fields[i+1])
		}
	}
}

// requireStable encodes and decodes c twice: the second time nothing changes any more. The first may drop
// what Java drops too: empty keys and values in the binary form, language numbers without a name in JSON.
func requireStable(t *testing.T, c *Command) {
	if c.Type == SerializeROCKETMQ {
		for i := range c.Fields {
			if len(c.Fields[i].Key) > 32767 {
				return
			}
		}
	}
	first := reparse(t, c)
	second := reparse(t, first)
	require.Equal(t, first.String(), second.String())
	require.Equal(t, first.AppendTo(nil), second.AppendTo(nil))
	require.Equal(t, c.Remark, first.Remark)
	require.Equal(t, c.Code, first.Code)
	require.Equal(t, c.Opaque, first.Opaque)
	require.Equal(t, c.Clone().String(), c.String())
}

// FuzzRecord: parsing any bytes never panics and stays within them; a record that parses, encoded again from
// a copy, gives the same bytes, unless it is in a form that AppendRecord does not choose.
func FuzzRecord(f *testing.F) {
	files, err := filepath.Glob("testdata/records/*.bin")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data, true)
	}
	rec, err := AppendRecord(nil, benchMessage())
	require.NoError(f, err)
	f.Add(rec, false)
	f.Add(AppendBlank(nil, 100), false)
	f.Fuzz(func(t *testing.T, data []byte, crc bool) {
		r, err := ParseRecord(data, crc)
		if err != nil {
			require.True(t, IsCorrupt(err))
			require.Equal(t, Record{}, r)
			return
		}
		if r.IsBlank() {
			return
		}
		require.LessOrEqual(t, r.TotalSize, len(data))
		m := r.Message()
		short := r.Magic == MagicV1 && len(r.Topic) <= maxTopicBytesV1
		long := r.Magic == MagicV2 && len(r.Topic) > maxTopicBytesV1 && len(r.Topic) <= MaxRetryTopicLength
		mapped := r.BornHost.Addr().Is4In6() || r.StoreHost.Addr().Is4In6()
		if mapped || !short && !long || BodyCRC(r.Body) != r.BodyCRC {
			return
		}
		again, err := AppendRecord(nil, m)
		require.NoError(t, err)
		PatchRecord(again, r.QueueOffset, r.PhyOffset, r.StoreTimestamp)
		want := append([]byte(nil), data[:r.TotalSize]...)
		clearHighPortBits(want, &r)
		require.Equal(t, want, again)
	})
}

// clearHighPortBits removes what a port of more than 16 bits has too much: ParseRecord cuts it.
func clearHighPortBits(rec []byte, r *Record) {
	at := recordBornHostAt + 4
	if r.SysFlag&SysFlagBornHostV6 != 0 {
		at += 12
	}
	rec[at], rec[at+1] = 0, 0
	at += 4 + 8 + 4
	if r.SysFlag&SysFlagStoreHostV6 != 0 {
		at += 12
	}
	rec[at], rec[at+1] = 0, 0
}

// FuzzBatch: walking any body never panics; a body that is well formed, encoded again, differs from it at
// most in the bytes that nobody reads.
func FuzzBatch(f *testing.F) {
	f.Add(batchBody(f, BatchEntry{Flag: 1, Body: []byte("one"), Properties: []byte("a\x011\x02")}, BatchEntry{}))
	seedFrames(f, func(data []byte) {
		frame, _, _, err := SplitFrame(data, MaxFrameBytes)
		require.NoError(f, err)
		f.Add(frame.Body)
	})
	f.Fuzz(func(t *testing.T, body []byte) {
		var again []byte
		at := 0
		err := EachBatchEntry(body, func(i int, e BatchEntry) error {
			start := len(again)
			var err error
			if again, err = AppendBatchEntry(again, e); err != nil {
				return err
			}
			copy(again[start:start+12], body[at:at+12])
			at += len(again) - start
			return nil
		})
		if err == nil {
			require.True(t, bytes.Equal(body, again))
		} else {
			require.ErrorIs(t, err, ErrBadBatch)
		}
	})
}

// FuzzProperties: any bytes can be read; lookup agrees with the map, removal with it too, and encoding the
// map gives an equal map.
func FuzzProperties(f *testing.F) {
	f.Add([]byte("a\x011\x02b\x012\x02"), "a")
	f.Add([]byte("a\x01\x02\x01v\x02a\x011\x01\x02x"), "a")
	f.Add(benchMessage().Properties, PropTags)
	f.Fuzz(func(t *testing.T, props []byte, name string) {
		m := ParseProperties(props)
		for k, v := range m {
			got, ok := LookupProperty(props, k)
			require.True(t, ok)
			require.Equal(t, v, string(got))
		}
		require.Equal(t, m, ParseProperties(EncodeProperties(m)))
		_, want := m[name]
		_, ok := LookupProperty(props, name)
		require.Equal(t, want, ok)
		delete(m, name)
		require.Equal(t, m, ParseProperties(RemoveProperty(nil, props, name)))
		in := append([]byte(nil), props...)
		require.Equal(t, m, ParseProperties(RemoveProperty(in[:0:len(in)], in, name)))
	})
}

// FuzzMessageID: parsing any text never panics, and what parses is written back as it was, in upper case.
func FuzzMessageID(f *testing.F) {
	f.Add("0A00000100002A9F0000001122334455")
	f.Add("FD0000000000000000000000000000027CFE30946E0994E7AFA70000")
	f.Fuzz(func(t *testing.T, id string) {
		if host, p, err := ParseOffsetMsgID(id); err == nil && !host.Addr().Is4In6() {
			require.Equal(t, string(bytes.ToUpper([]byte(id))), string(AppendOffsetMsgID(nil, host, p)))
		}
		_, err := ParseUniqueID(id)
		if err != nil {
			require.ErrorIs(t, err, ErrBadMessageID)
		}
	})
}

// FuzzDecompress: any bytes under any flags give an error or at most limit bytes.
func FuzzDecompress(f *testing.F) {
	for _, compression := range []int32{SysFlagCompressionZlib, SysFlagCompressionLZ4, SysFlagCompressionZSTD} {
		out, flags, err := CompressBody(bytes.Repeat([]byte("x"), 2000), compression, DefaultCompressLevel)
		require.NoError(f, err)
		f.Add(out, flags)
	}
	f.Fuzz(func(t *testing.T, body []byte, sysFlag int32) {
		const limit = 1000
		out, err := DecompressBody(body, sysFlag, limit)
		if err == nil && CompressionOf(sysFlag) != 0 {
			require.LessOrEqual(t, len(out), limit)
		}
	})
}
