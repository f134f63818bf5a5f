package codec

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBinaryVector is the frame of spec wire.md §10.
func TestBinaryVector(t *testing.T) {
	want := unhex(t,
		"00000025 01000021 0069 00 01DF 00000007 00000000 00000000 0000000C 0005 746F706963 00000001 54")
	c := &Command{Code: ReqGetRouteInfoByTopic, Version: 479, Opaque: 7, Type: SerializeROCKETMQ}
	c.Set("topic", "T")
	require.Equal(t, want, c.AppendTo(nil))

	f, n, _, err := SplitFrame(want, MaxFrameBytes)
	require.NoError(t, err)
	require.Equal(t, len(want), n)
	var d Command
	require.NoError(t, d.Decode(f))
	require.Equal(t, "T", d.Get("topic"))
	require.Equal(t, c.String(), d.String())
}

// TestJSONVector is the header of spec wire.md §2.
func TestJSONVector(t *testing.T) {
	c := &Command{Code: 105, Version: 479}
	c.Set("topic", "T")
	require.Equal(t, `{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":0,`+
		`"serializeTypeCurrentRPC":"JSON","version":479}`, string(c.AppendTo(nil)[8:]))
}

// TestPopCodeInBinaryHeader is the truncation of spec wire.md §3 and its repair.
func TestPopCodeInBinaryHeader(t *testing.T) {
	f := func(code, onWire int) {
		t.Helper()
		d := reparse(t, &Command{Code: code, Type: SerializeROCKETMQ})
		require.Equal(t, onWire, d.Code)
		require.Equal(t, code, NormalizeRequestCode(d.Code))
		require.Equal(t, code, NormalizeRequestCode(code))
	}
	f(ReqPopMessage, 3442)
	f(ReqAckMessage, 3443)
	f(ReqPeekMessage, 3444)
	f(ReqChangeMessageInvisibleTime, 3445)
	f(ReqNotification, 3446)
	f(ReqPollingInfo, 3447)
	f(ReqPopRollback, 3448)
	f(ReqBatchAckMessage, 3543)
	require.Equal(t, ReqAuthListACL, NormalizeRequestCode(ReqAuthListACL))
	require.Equal(t, 3449, NormalizeRequestCode(3449))
}

func reparse(t testing.TB, c *Command) *Command {
	t.Helper()
	return decodeFrame(t, c.AppendTo(nil))
}

func decodeFrame(t testing.TB, frame []byte) *Command {
	t.Helper()
	f, n, _, err := SplitFrame(frame, MaxFrameBytes)
	require.NoError(t, err)
	require.Equal(t, len(frame), n)
	c := &Command{}
	require.NoError(t, c.Decode(f))
	return c
}

func TestCommandRoundTrip(t *testing.T) {
	for _, typ := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
		c := &Command{Code: 310, Language: LanguageGo, Version: 479, Opaque: -5, Flag: FlagOneway,
			Remark: "line one\nline \"two\" \\ ünï 中 😀 \x01\x1f", Type: typ, Body: []byte{0, 1, 2}}
		c.Set("a", "value")
		c.Set("props", "k\x01v\x02\t\r\b\f/<>&")
		c.Set("ü", "é")
		d := reparse(t, c)
		require.Equal(t, c.Remark, d.Remark)
		require.Equal(t, c.String(), d.String())
		require.Equal(t, c.Body, d.Body)
		require.Equal(t, c.Opaque, d.Opaque)
		require.True(t, d.IsOneway())
		require.False(t, d.IsResponse())
		require.Equal(t, LanguageGo, d.Language)
		require.Equal(t, c.AppendTo(nil), d.AppendTo(nil))
	}
}

func decodeJSONHeader(header string) (*Command, error) {
	c := &Command{}
	return c, c.Decode(Frame{Header: []byte(header)})
}

// TestJSONTolerance is what a Java server takes (spec wire.md §2) and case B03 (b), (d), (f).
func TestJSONTolerance(t *testing.T) {
	f := func(header string, check func(c *Command)) {
		t.Helper()
		c, err := decodeJSONHeader(header)
		require.NoError(t, err, header)
		check(c)
	}
	f(`{}`, func(c *Command) { require.Equal(t, LanguageJava, c.Language) })
	f(` { "opaque" : 7 , "code" : 105 } `, func(c *Command) {
		require.EqualValues(t, 7, c.Opaque)
		require.Equal(t, 105, c.Code)
	})
	f("{\n\t\"code\":\r\n\"105\"}", func(c *Command) { require.Equal(t, 105, c.Code) })
	f(`{"code":105,"extFields":null,"remark":null}`, func(c *Command) { require.Empty(t, c.Fields) })
	f(`{"code":105,"extFields":{}}`, func(c *Command) { require.Empty(t, c.Fields) })
	f(`{"extFields":{"a":1,"b":true,"c":null,"d":1.5,"e":{"x":[1,{}]},"f":"s"}}`, func(c *Command) {
		require.Equal(t, "1", c.Get("a"))
		require.Equal(t, "true", c.Get("b"))
		require.Nil(t, c.Lookup("c"))
		require.Equal(t, "1.5", c.Get("d"))
		require.Equal(t, `{"x":[1,{}]}`, c.Get("e"))
		require.Equal(t, "s", c.Get("f"))
	})
	f(`{"extFields": {"a": "1" , "b":"2"}, "code":3}`, func(c *Command) {
		require.Equal(t, "1", c.Get("a"))
		require.Equal(t, "2", c.Get("b"))
		require.Equal(t, 3, c.Code)
	})
	f(`{"extFields":{"a":"1","a":"2"}}`, func(c *Command) { require.Equal(t, "2", c.Get("a")) })
	f(`{"extFields":{"a\u0062":"1","\u00e9":"2"},"\u0063ode":7}`, func(c *Command) {
		require.Equal(t, "1", c.Get("ab"))
		require.Equal(t, "2", c.Get("é"))
		require.Equal(t, 7, c.Code)
	})
	f(`{"unknown":{"x":[[],{"y":"\"}"}]},"code":4}`, func(c *Command) { require.Equal(t, 4, c.Code) })
	f(`{"language":"ZIG"}`, func(c *Command) { require.Equal(t, LanguageOther, c.Language) })
	f(`{"language":9}`, func(c *Command) { require.Equal(t, LanguageGo, c.Language) })
	f(`{"language":"NODE_JS"}`, func(c *Command) { require.Equal(t, LanguageNodeJS, c.Language) })
	f(`{"version":0}`, func(c *Command) { require.Equal(t, 0, c.Version) })
	f(`{"version":32767}`, func(c *Command) { require.Equal(t, 32767, c.Version) })
	f(`{"opaque":-2147483648}`, func(c *Command) { require.EqualValues(t, -2147483648, c.Opaque) })
	f(`{"opaque":"-1"}`, func(c *Command) { require.EqualValues(t, -1, c.Opaque) })
	f(`{"opaque":null,"code":0000000000105}`, func(c *Command) { require.Equal(t, 105, c.Code) })
	f(`{"remark":"\u4e2d\ud83d\ude00\/\n"}`, func(c *Command) { require.Equal(t, "中😀/\n", c.Remark) })
	f(`{"extFields":{"i":"k\u0001v\u0002"}}`, func(c *Command) {
		require.True(t, c.Lookup("i").Escaped)
		require.Equal(t, "k\x01v\x02", c.Get("i"))
		require.Equal(t, "xk\x01v\x02", string(c.Lookup("i").AppendValue([]byte("x"))))
	})
}

// TestJSONRefuses has the headers of case B01 (e) among others.
func TestJSONRefuses(t *testing.T) {
	f := func(header string) {
		t.Helper()
		_, err := decodeJSONHeader(header)
		require.ErrorIs(t, err, ErrMalformed, header)
	}
	f(``)
	f(`[]`)
	f(`null`)
	f(`"x"`)
	f(`{`)
	f(`{"code"`)
	f(`{"code":`)
	f(`{"code":}`)
	f(`{"code":1`)
	f(`{"code":1,}`)
	f(`{"code":1}x`)
	f(`{"code":12x}`)
	f(`{"code":99999999999}`)
	f(`{"code":{}}`)
	f(`{"extFields":[]}`)
	f(`{"extFields":"a"}`)
	f(`{"extFields":{"a":"b}}`)
	f(`{"extFields":{"a":"b"`)
	f(`{"extFields":{"a":"b",`)
	f(`{"extFields":{"a" "b"}}`)
	f(`{"extFields":{"a":"b" "c":"d"}}`)
	f("{\"extFields\":{\"a\":\"\xff\"}}")
	f("\xff\xfe")
	f(`{"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`)
	f(`{"x":[1 2]}`)
	f(`{"x":{"y" 1}}`)
	f(`{"a\`)
	f(`{"a":"\`)
}

// TestBinaryRefuses has the headers of case B01 (d).
func TestBinaryRefuses(t *testing.T) {
	f := func(name, header string) {
		t.Helper()
		c := &Command{}
		err := c.Decode(Frame{Type: SerializeROCKETMQ, Header: unhex(t, header)})
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	fixed := "0069 00 01DF 00000007 00000000 "
	f("empty", "")
	f("20 bytes", "0069 00 01DF 00000007 00000000 00000000 000000")
	f("remark of 2 GiB", fixed+"7FFFFFFF 00000000")
	f("remark of -1", fixed+"FFFFFFFF 00000000")
	f("remark up to the end", fixed+"00000004 00000000")
	f("remark that is no UTF-8", fixed+"00000001 FF 00000000")
	f("fields longer than what is left", fixed+"00000000 00000001")
	f("fields of -1", fixed+"00000000 FFFFFFFF")
	f("key of 65535", fixed+"00000000 00000003 FFFF 61")
	f("key beyond the block", fixed+"00000000 00000003 0002 61")
	f("key length cut", fixed+"00000000 00000001 00")
	f("value length cut", fixed+"00000000 00000005 0001 61 0000")
	f("value of -1", fixed+"00000000 00000007 0001 61 FFFFFFFF")
	f("value of 2 GiB", fixed+"00000000 00000007 0001 61 7FFFFFFF")
	f("key that is no UTF-8", fixed+"00000000 00000008 0001 FF 00000001 61")
	f("value that is no UTF-8", fixed+"00000000 00000008 0001 61 00000001 FF")
}

func TestBinaryTolerance(t *testing.T) {
	c := &Command{}
	// language 99, an entry with an empty key, one with an empty value, bytes behind the fields
	h := unhex(t, "0069 63 7FFF 00000007 00000002 00000000 00000017 0000 00000001 61 0001 61 00000000 "+
		"0001 62 00000002 C3A9 AABB")
	require.NoError(t, c.Decode(Frame{Type: SerializeROCKETMQ, Header: h}))
	require.Equal(t, LanguageCode(99), c.Language)
	require.Equal(t, "OTHER", c.Language.String())
	require.Equal(t, 32767, c.Version)
	require.Len(t, c.Fields, 1)
	require.Equal(t, "é", c.Get("b"))
}

func TestUnescape(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		require.Equal(t, want, string(appendUnescaped(nil, []byte(raw))))
	}
	f(`plain`, "plain")
	f(`\"\\\/\b\f\n\r\t`, "\"\\/\b\f\n\r\t")
	f(`A\u00e9\u4E2D`, "Aé中")
	f(`\ud83d\ude00`, "😀")
	f(`\ud83d`, "\uFFFD")
	f(`\ud83dx`, "\uFFFDx")
	f(`\ud83dA`, "\uFFFDA")
	f(`\ude00`, "\uFFFD")
	f(`\u12`, "u12")
	f(`\u`, "u")
	f(`\q`, "q")
	f(`tail\`, `tail\`)
}

func TestSetReplaces(t *testing.T) {
	c := &Command{}
	c.Set("a", "1")
	c.SetInt("b", -2)
	c.SetBool("a", true)
	require.Len(t, c.Fields, 2)
	require.Equal(t, "true", c.Get("a"))
	require.Equal(t, "-2", c.Get("b"))
	require.Equal(t, "", c.Get("c"))
}

func TestCloneOutlivesBuffer(t *testing.T) {
	src := &Command{Code: 310, Remark: "r", Body: []byte("body")}
	src.Set("a", "value\x01")
	frame := src.AppendTo(nil)
	clone := decodeFrame(t, frame).Clone()
	for i := range frame {
		frame[i] = 0xEE
	}
	require.Equal(t, "value\x01", clone.Get("a"))
	require.Equal(t, "body", string(clone.Body))
	require.Equal(t, "r", clone.Remark)
}

func TestNewResponse(t *testing.T) {
	req := &Command{Code: 105, Opaque: 77, Type: SerializeROCKETMQ, Version: 317}
	resp := reparse(t, NewResponse(req, RespTopicNotExist, "gone"))
	require.Equal(t, RespTopicNotExist, resp.Code)
	require.EqualValues(t, 77, resp.Opaque)
	require.Equal(t, SerializeROCKETMQ, resp.Type)
	require.True(t, resp.IsResponse())
	require.Equal(t, 479, resp.Version)
	require.Equal(t, "gone", resp.Remark)
}

func TestAppendHeaderLeavesBodyToOthers(t *testing.T) {
	c := &Command{Code: 1}
	body := bytes.Repeat([]byte{7}, 100)
	frame := append(c.AppendHeader(nil, len(body)), body...)
	require.Equal(t, body, decodeFrame(t, frame).Body)
}

func TestParseInt(t *testing.T) {
	f := func(text string, want int64, ok bool) {
		t.Helper()
		v, got := parseInt([]byte(text))
		require.Equal(t, ok, got, text)
		require.Equal(t, want, v, text)
	}
	f("0", 0, true)
	f("-1", -1, true)
	f("+5", 5, true)
	f("9223372036854775807", 1<<63-1, true)
	f("-9223372036854775808", -1<<63, true)
	f("9223372036854775808", 0, false)
	f("-9223372036854775809", 0, false)
	f("99999999999999999999", 0, false)
	f("00000000000000000000000000105", 105, true)
	f("", 0, false)
	f("-", 0, false)
	f("+", 0, false)
	f("12x", 0, false)
	f(" 1", 0, false)
	f("1.0", 0, false)
}

func TestCommandString(t *testing.T) {
	c := &Command{Code: 1, Remark: "r", Body: []byte("xy")}
	c.Set("long", strings.Repeat("v", 100))
	require.Contains(t, c.String(), `remark="r"`)
	require.Contains(t, c.String(), "body=2 bytes")
	require.Less(t, len(c.String()), 200)
}

// TestTooManyFields bounds what a hostile header makes a reused Command keep.
func TestTooManyFields(t *testing.T) {
	f := func(n int, typ SerializeType, ok bool) {
		t.Helper()
		c := &Command{Type: typ}
		for range n {
			c.Fields = append(c.Fields, Field{Key: []byte("k"), Value: []byte("v")})
		}
		frame, _, _, err := SplitFrame(c.AppendTo(nil), MaxFrameBytes)
		require.NoError(t, err)
		err = (&Command{}).Decode(frame)
		if ok {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrMalformed)
		}
	}
	for _, typ := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
		f(MaxFields, typ, true)
		f(MaxFields+1, typ, false)
	}
}
