package body_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

// fuzzed are bodies of every kind: enums, defaults, sets, queue keys, embedded structs, references.
var fuzzed = []any{body.HeartbeatData{}, body.ConsumerRunningInfo{}, body.TopicRouteData{},
	body.SubscriptionGroupWrapper{}, body.TopicConfigAndMappingSerializeWrapper{}, body.ConsumeStatsList{},
	body.GetConsumerStatusBody{}, body.QueryAssignmentResponseBody{}, body.BatchAckMessageRequestBody{},
	body.TopicConfigAndQueueMapping{}, body.ConsumerConnection{}, body.DelayOffsetSerializeWrapper{}}

// FuzzBody: any text gives an error or a body; what is written of that can be read, and from then on the text stays
// the same. The first time a member may come back: an enum name that Java does not know is null, left out, and then
// has its default.
func FuzzBody(f *testing.F) {
	files, err := filepath.Glob("../testdata/wire/*/*.bin")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		frame, _, _, err := codec.SplitFrame(data, codec.MaxFrameBytes)
		require.NoError(f, err)
		if len(frame.Body) > 0 && frame.Body[0] == '{' {
			for i := range fuzzed {
				f.Add(uint8(i), frame.Body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		typ := reflect.TypeOf(fuzzed[int(kind)%len(fuzzed)])
		v := reflect.New(typ)
		if body.Decode(data, v.Interface()) != nil {
			return
		}
		var texts [3]string
		for i := range texts {
			text, err := body.Encode(v.Interface())
			require.NoError(t, err)
			texts[i] = string(text)
			v = reflect.New(typ)
			require.NoError(t, body.Decode(text, v.Interface()))
		}
		require.Equal(t, texts[1], texts[2])
	})
}
