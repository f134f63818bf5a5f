package body_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/zlib"
	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

func testRegisterBody() *body.RegisterBrokerBody {
	topic := func(name string) *body.TopicConfig {
		return &body.TopicConfig{TopicName: name, ReadQueueNums: 1, WriteQueueNums: 2, Perm: 6,
			TopicFilterType: body.SingleTag, Attributes: map[string]string{"message.type": "FIFO"}}
	}
	return &body.RegisterBrokerBody{FilterServerList: []string{"fs:1"},
		TopicConfigSerializeWrapper: body.TopicConfigAndMappingSerializeWrapper{
			DataVersion:      body.DataVersion{Counter: 1, StateVersion: 2, Timestamp: 3},
			TopicConfigTable: map[string]*body.TopicConfig{"T": topic("T"), "U": topic("U")},
			TopicQueueMappingInfoMap: map[string]*body.TopicQueueMappingInfo{"T": {Topic: "T", BrokerName: "b",
				CurrIDMap: map[int32]int32{0: 1}, Scope: codec.MetadataScopeGlobal, TotalQueues: 4}}}}
}

func TestRegisterCompressed(t *testing.T) {
	want := testRegisterBody()
	data, err := want.EncodeCompressed(codec.Version533)
	require.NoError(t, err)
	for _, compressed := range []bool{true, false} { // 5.x brokers compress and say that they do not
		got, err := body.DecodeRegisterBrokerBody(data, compressed, codec.Version533)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}

	data, err = want.EncodeCompressed(codec.Version498)
	require.NoError(t, err)
	got, err := body.DecodeRegisterBrokerBody(data, true, codec.Version498)
	require.NoError(t, err)
	want.TopicConfigSerializeWrapper.TopicQueueMappingInfoMap = nil
	require.Equal(t, want, got)
}

func TestRegisterPlain(t *testing.T) {
	want := testRegisterBody()
	data, err := body.Encode(want)
	require.NoError(t, err)
	got, err := body.DecodeRegisterBrokerBody(data, false, codec.Version533)
	require.NoError(t, err)
	require.Equal(t, want.TopicConfigSerializeWrapper.TopicConfigTable,
		got.TopicConfigSerializeWrapper.TopicConfigTable)

	data, err = body.Encode(want.TopicConfigSerializeWrapper)
	require.NoError(t, err)
	got, err = body.DecodeRegisterBrokerBody(data, false, codec.Version3011-1)
	require.NoError(t, err)
	require.Equal(t, want.TopicConfigSerializeWrapper.TopicConfigTable,
		got.TopicConfigSerializeWrapper.TopicConfigTable)

	got, err = body.DecodeRegisterBrokerBody(nil, false, codec.Version533)
	require.NoError(t, err)
	require.Equal(t, &body.RegisterBrokerBody{}, got)
}

func deflate(t testing.TB, raw []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zlib.NewWriter(&buf)
	_, err := z.Write(raw)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return buf.Bytes()
}

func TestRegisterRefuses(t *testing.T) {
	f := func(name string, data []byte) {
		t.Helper()
		_, err := body.DecodeRegisterBrokerBody(data, true, codec.Version533)
		require.ErrorIs(t, err, body.ErrRegisterBody, name)
	}
	part := func(raw []byte, p string) []byte {
		return append(binary.BigEndian.AppendUint32(raw, uint32(len(p))), p...)
	}
	f("no stream", []byte("xx"))
	f("empty stream", deflate(t, nil))
	f("length of 2 GiB", deflate(t, []byte{0x7F, 0xFF, 0xFF, 0xFF, '{', '}'}))
	f("negative length", deflate(t, []byte{0xFF, 0xFF, 0xFF, 0xFF, '{', '}'}))
	f("no topics", deflate(t, part(nil, "{}")))
	f("too few topics", deflate(t, append(part(nil, "{}"), 0, 0, 0, 9)))
	f("short topic line", deflate(t, part(append(part(nil, "{}"), 0, 0, 0, 1), "T 1 2")))
	f("version that is no JSON", deflate(t, part(nil, "{")))
	good, err := testRegisterBody().EncodeCompressed(codec.Version533)
	require.NoError(t, err)
	f("cut", good[:len(good)/2])
}

func TestTopicLine(t *testing.T) {
	f := func(line string, want body.TopicConfig) {
		t.Helper()
		got, err := body.ParseTopicLine(line)
		require.NoError(t, err)
		require.Equal(t, &want, got)
	}
	base := body.TopicConfig{TopicName: "T", ReadQueueNums: 8, WriteQueueNums: 4, Perm: 6,
		TopicFilterType: body.SingleTag}
	f("T 8 4 6 SINGLE_TAG", base)
	f("T 8 4 6 SINGLE_TAG ", base)
	f(`T 8 4 6 SINGLE_TAG {"a":"b c"}`, base)
	base.Attributes = map[string]string{"a": "b"}
	f(`T 8 4 6 SINGLE_TAG {"a":"b"}`, base)
	line, err := base.Line()
	require.NoError(t, err)
	require.Equal(t, `T 8 4 6 SINGLE_TAG {"a":"b"}`, line)

	_, err = body.ParseTopicLine("T 8 4 6")
	require.Error(t, err)
	_, err = body.ParseTopicLine("T 8 x 6 SINGLE_TAG")
	require.Error(t, err)
}

// FuzzRegister: any bytes give an error or a body, in bounded memory, and a body that was read can be written
// and read again.
func FuzzRegister(f *testing.F) {
	compressed, err := testRegisterBody().EncodeCompressed(codec.Version533)
	require.NoError(f, err)
	plain, err := body.Encode(testRegisterBody())
	require.NoError(f, err)
	f.Add(compressed, true, 479)
	f.Add(compressed, false, 409)
	f.Add(plain, false, 479)
	f.Fuzz(func(t *testing.T, data []byte, compressed bool, version int) {
		b, err := body.DecodeRegisterBrokerBody(data, compressed, version)
		if err != nil {
			return
		}
		if _, err := body.Encode(b); err != nil {
			t.Fatal(err)
		}
	})
}
