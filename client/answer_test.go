package client

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

func splitOne(t testing.TB, frame []byte) codec.Frame {
	t.Helper()
	f, n, _, err := codec.SplitFrame(frame, codec.MaxFrameBytes)
	require.NoError(t, err)
	require.Equal(t, len(frame), n)
	return f
}

func sendAnswer(typ codec.SerializeType, opaque int32, r codec.SendResponse) []byte {
	r.StoreHost, r.Region = netip.MustParseAddrPort("10.0.0.1:10911"), codec.DefaultRegionID
	return codec.AppendSendResponse(nil, typ, opaque, &r)
}

func TestPeekAnswer(t *testing.T) {
	var cmd codec.Command
	f := func(frame []byte, want Answer) {
		t.Helper()
		got, err := PeekAnswer(splitOne(t, frame), &cmd)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, typ := range bothTypes {
		f(sendAnswer(typ, 1234567890, codec.SendResponse{}), Answer{Code: 0, Opaque: 1234567890, Flag: 1})
		f(sendAnswer(typ, 1, codec.SendResponse{Code: codec.RespSystemBusy, Remark: `"opaque":7,"flag":0}`}),
			Answer{Code: 2, Opaque: 1, Flag: 1})
		f(sendAnswer(typ, -5, codec.SendResponse{Code: 1500}), Answer{Code: 1500, Opaque: -5, Flag: 1})
		req := codec.NewRequest(codec.ReqNotifyConsumerIDsChanged)
		req.Type, req.Flag, req.Opaque = typ, codec.FlagOneway, 2147483647
		req.Set("opaque", "1")
		req.Set("flag", "1")
		f(req.AppendTo(nil), Answer{Code: codec.ReqNotifyConsumerIDsChanged, Opaque: 2147483647, Flag: 2})
	}
	for _, typ := range bothTypes { // what brokers send takes the short way: a nil command is not touched
		_, err := PeekAnswer(splitOne(t, sendAnswer(typ, 1234567890, codec.SendResponse{})), nil)
		require.NoError(t, err)
	}
	json := func(header string) []byte {
		return append([]byte{0, 0, 0, byte(4 + len(header)), 0, 0, 0, byte(len(header))}, header...)
	}
	want := Answer{Code: 3, Opaque: 4, Flag: 1}
	f(json(`{"opaque":4,"flag":1,"code":3}`), want)
	f(json(`{"code":3,"flag":1,"opaque":4}`), want)
	f(json(`{"code":3,"flag":1,"opaque":4,"extFields":{"opaque":"9"}}`), want)
	f(json(`{"code": 3, "flag": 1, "opaque": 4}`), want)
	f(json(`{"code":"3","flag":"1","opaque":"4"}`), want)
	f(json(`{"code":-3,"flag":1,"opaque":4}`), Answer{Code: -3, Opaque: 4, Flag: 1})
	_, err := PeekAnswer(splitOne(t, json(`{"code":3`)), &cmd)
	require.ErrorIs(t, err, codec.ErrMalformed)
	_, err = PeekAnswer(splitOne(t, json(`{"code":3,"flag":1,"opaque":99999999999}`)), &cmd)
	require.ErrorIs(t, err, codec.ErrMalformed)
}

// FuzzPeekAnswer: of every header that Command.Decode reads, PeekAnswer gives the same numbers, or at least
// those of a header that is the same up to duplicate members.
func FuzzPeekAnswer(f *testing.F) {
	for _, typ := range bothTypes {
		f.Add(sendAnswer(typ, 1234567890, codec.SendResponse{}))
		f.Add(sendAnswer(typ, 7, codec.SendResponse{Code: 2, Remark: "busy"}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, n, _, err := codec.SplitFrame(b, 1<<20)
		if err != nil || n == 0 {
			return
		}
		var whole, scratch codec.Command
		wantErr := whole.Decode(fr)
		got, err := PeekAnswer(fr, &scratch)
		if wantErr != nil || fr.Type == codec.SerializeJSON && hasDuplicates(fr.Header) {
			return
		}
		require.NoError(t, err)
		require.Equal(t, Answer{Code: whole.Code, Opaque: whole.Opaque, Flag: whole.Flag}, got)
	})
}
