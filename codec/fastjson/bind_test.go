package fastjson

import (
	"encoding/base64"
	"math"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnmarshalNames(t *testing.T) {
	type body struct {
		ClientID  string `json:"clientID"`
		NoTag     int
		Lock      bool `json:"lock"`
		SubString string
		Skipped   int `json:"-"`
		hidden    int
	}
	f := func(text string, want body) {
		t.Helper()
		var got body
		require.NoError(t, Unmarshal([]byte(text), &got))
		require.Equal(t, want, got)
	}
	f(`{"clientID":"a"}`, body{ClientID: "a"})
	f(`{"clientId":"a"}`, body{ClientID: "a"})
	f(`{"CLIENT_ID":"a"}`, body{ClientID: "a"})
	f(`{"client-id":"a"}`, body{ClientID: "a"})
	f(`{"clientID":"a","clientId":"b"}`, body{ClientID: "a"})
	f(`{"clientId":"b","clientID":"a"}`, body{ClientID: "a"})
	f(`{"clientID":"a","clientID":"b"}`, body{ClientID: "b"})
	f(`{"clientid":"a","clientId":"b"}`, body{ClientID: "b"})
	f(`{"noTag":1,"NoTag":2}`, body{NoTag: 1})
	f(`{"isLock":true}`, body{Lock: true})
	f(`{"isSubString":"x","skipped":1,"hidden":1,"-":1,"unknown":{"x":[1]},{"a":1}:2}`, body{})
	require.Zero(t, body{}.hidden)
}

func TestUnmarshalMaps(t *testing.T) {
	type mq = messageQueue
	f := func(text string, want any, ptr any) {
		t.Helper()
		require.NoError(t, Unmarshal([]byte(text), ptr))
		require.Equal(t, want, deref(ptr))
	}
	f(`{0:"a","1":"b",2.0:"c","null":"d",null:"e","":"f"}`,
		map[int64]string{0: "a", 1: "b", 2: "c"}, new(map[int64]string))
	f(`{0:1,x:2,"":3,"null":4,{"a":1}:5}`, map[string]int{"0": 1, "x": 2, "": 3, "null": 4, `{"a":1}`: 5},
		new(map[string]int))
	f(`{{"brokerName":"b","queueId":1,"topic":"t"}:5}`, map[mq]int64{{"b", 1, "t"}: 5}, new(map[mq]int64))
	f(`{"{\"brokerName\":\"b\",\"queueId\":\"1\",\"topic\":\"t\"}":5}`,
		map[mq]int64{{"b", 1, "t"}: 5}, new(map[mq]int64))
	f(`{"{'topic':'t'}":5,"null":6}`, map[mq]int64{{Topic: "t"}: 5}, new(map[mq]int64))
	f(`{"1.2.3.4":5}`, map[netip.Addr]int{netip.MustParseAddr("1.2.3.4"): 5}, new(map[netip.Addr]int))
	f(`{"multi_tag":1,0:2}`, map[filterType]int{1: 1, 0: 2}, new(map[filterType]int))
	f(`{"t":{0:5}}`, map[string]map[int32]int64{"t": {0: 5}}, new(map[string]map[int32]int64))
	f(`{}`, map[string]int{}, new(map[string]int))
	f(`null`, map[string]int(nil), &map[string]int{"a": 1})
}

func deref(ptr any) any {
	switch p := ptr.(type) {
	case *map[int64]string:
		return *p
	case *map[string]int:
		return *p
	case *map[messageQueue]int64:
		return *p
	case *map[netip.Addr]int:
		return *p
	case *map[filterType]int:
		return *p
	case *map[string]map[int32]int64:
		return *p
	}
	return ptr
}

func TestUnmarshalDefaults(t *testing.T) {
	var w topics
	require.NoError(t, Unmarshal([]byte(`{"topicConfigTable":{"a":{},"b":{"perm":0,"order":null}}}`), &w))
	require.Equal(t, topicConfig{Perm: 6, ReadQueueNums: 16, WriteQueueNums: 16}, w.Table["a"])
	require.Equal(t, topicConfig{Perm: 0, ReadQueueNums: 16, WriteQueueNums: 16}, w.Table["b"])

	c := topicConfig{Perm: 1}
	require.NoError(t, Unmarshal([]byte(`{"order":true}`), &c))
	require.Equal(t, topicConfig{Perm: 1, Order: true}, c, "only structs that are all zero get defaults")

	var list []*topicConfig
	require.NoError(t, Unmarshal([]byte(`[{},null]`), &list))
	require.Equal(t, 6, list[0].Perm)
	require.Nil(t, list[1])
}

func TestUnmarshalOthers(t *testing.T) {
	type body struct {
		Any  any
		Raw  Value
		U64  uint64
		U8   uint8
		F32  float32
		Addr netip.Addr
		Enum filterType
		Ptr  *messageQueue
	}
	var b body
	require.NoError(t, Unmarshal([]byte(`{any:{x:[1,"a",1.5,null,true],2:3},raw:{1:[2]},u64:18446744073709551615,
		u8:"255",f32:1.5,addr:"::1",enum:1,ptr:{topic:"t1"}}`), &b))
	require.Equal(t, map[string]any{"x": []any{int64(1), "a", 1.5, nil, true}, "2": int64(3)}, b.Any)
	require.Equal(t, `{1:[2]}`, b.Raw.String())
	require.EqualValues(t, uint64(math.MaxUint64), b.U64)
	require.EqualValues(t, 255, b.U8)
	require.EqualValues(t, 1.5, b.F32)
	require.Equal(t, netip.MustParseAddr("::1"), b.Addr)
	require.EqualValues(t, 1, b.Enum)
	require.Equal(t, "t1", b.Ptr.Topic)

	require.NoError(t, Unmarshal([]byte(`{any:null,ptr:null,addr:null,u8:null,enum:"Single_Tag"}`), &b))
	require.Nil(t, b.Any)
	require.Nil(t, b.Ptr)
	require.EqualValues(t, 255, b.U8, "null leaves numbers alone")
	require.EqualValues(t, 0, b.Enum)
}

func TestUnmarshalErrors(t *testing.T) {
	type body struct {
		A    int32
		U    uint8
		B    []byte
		L    []struct{ X int64 }
		M    map[messageQueue]int64
		N    map[int32]int64
		E    filterType
		Addr netip.Addr
		F    float32
		D    bool
		P    *messageQueue
	}
	f := func(text, want string) {
		t.Helper()
		err := Unmarshal([]byte(text), new(body))
		require.ErrorIs(t, err, ErrType)
		require.EqualError(t, err, "fastjson: "+want)
	}
	f(`[1]`, `$: want fastjson.body, got array`)
	f(`{a:2147483648}`, `$.a: want int32, got number 2147483648`)
	f(`{a:"x"}`, `$.a: want int32, got string "x"`)
	f(`{a:"0x10"}`, `$.a: want int32, got string "0x10"`)
	f(`{u:-1}`, `$.u: want uint8, got number -1`)
	f(`{u:256}`, `$.u: want uint8, got number 256`)
	f(`{b:5}`, `$.b: want []uint8, got number 5`)
	f(`{b:[1,300]}`, `$.b[1]: want byte, got number 300`)
	f(`{b:"!"}`, `$.b: want Base64, got string "!": `+base64.CorruptInputError(0).Error())
	f(`{l:[{x:1},{x:[]}]}`, `$.l[1].x: want int64, got array`)
	f(`{m:{5:1}}`, `$.m.<key>: want fastjson.messageQueue, got number 5`)
	f(`{m:{"{":1}}`, `$.m.<key>: want fastjson.messageQueue as JSON, got string "{": `+
		`fastjson: syntax error at byte 1: object is not closed`)
	f(`{m:{{queueId:"q"}:1}}`, `$.m.<key>.queueId: want int32, got string "q"`)
	f(`{m:{{topic:"t"}:"x"}}`, `$.m.{"topic":"t"}: want int64, got string "x"`)
	f(`{n:{7:"x"}}`, `$.n.7: want int64, got string "x"`)
	f(`{n:[]}`, `$.n: want map[int32]int64, got array`)
	f(`{e:9}`, `$.e: want fastjson.filterType, got number 9: no TopicFilterType 9`)
	f(`{addr:"x"}`, `$.addr: want netip.Addr, got string "x": ParseAddr("x"): unable to parse IP`)
	f(`{addr:[]}`, `$.addr: want netip.Addr, got array`)
	f(`{f:1e300}`, `$.f: want float32, got number 1e300`)
	f(`{f:"inf_"}`, `$.f: want float32, got string "inf_"`)
	f(`{d:"maybe"}`, `$.d: want bool, got string "maybe"`)
	f(`{p:"x"}`, `$.p: want fastjson.messageQueue, got string "x"`)

	require.ErrorContains(t, Unmarshal([]byte(`1`), nil), "a pointer is needed")
	require.ErrorContains(t, Unmarshal([]byte(`1`), body{}), "a pointer is needed")
	require.ErrorContains(t, Unmarshal([]byte(`1`), new(chan int)), "cannot bind to Go type chan int")
	require.Panics(t, func() {
		type bad struct {
			A int `json:"a,nope"`
		}
		_ = Unmarshal([]byte(`{}`), new(bad))
	})
}

// TestBindDoesNotAlias: what is bound must not keep the whole text alive.
func TestBindDoesNotAlias(t *testing.T) {
	v, err := Parse([]byte(`{"topic":"abc"}`))
	require.NoError(t, err)
	var q messageQueue
	require.NoError(t, v.Bind(&q))
	require.Equal(t, "abc", q.Topic)
	require.NotSame(t, &[]byte(v.Get("topic").Text())[0], &[]byte(q.Topic)[0])
}
