package broker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker/stats"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

const replyTopic = "DefaultCluster_REPLY_TOPIC"

// replyRequest is a reply as clients send it.
func replyRequest(code int, props string, data []byte) *codec.Command {
	req := codec.NewRequest(code)
	h := codec.SendMessageHeader{ProducerGroup: []byte("consumers"), Topic: []byte(replyTopic),
		DefaultTopic: []byte(codec.AutoCreateTopicKey), DefaultTopicQueueNums: 4, BornTimestamp: 12345,
		Properties: codec.Field{Value: []byte(props)}}
	h.Encode(req)
	req.Body = data
	return req
}

// replyProps are those of a reply to a client.
func replyProps(clientID string) string {
	return "MSG_TYPE\x01reply\x02CORRELATION_ID\x01id-1\x02REPLY_TO_CLIENT\x01" + clientID + "\x02TTL\x013000\x02"
}

// confirms answers every push as a Java client does.
func confirms(code int) func(*codec.Command) *codec.Command {
	return func(req *codec.Command) *codec.Command { return codec.NewResponse(req, code, "") }
}

// A reply reaches the requester and is stored; the answer tells of both as in Java.
func TestReply(t *testing.T) {
	f := func(t *testing.T, conf string, code int, stored bool) {
		b := startBroker(t, conf)
		asks := b.dial()
		asks.serve = confirms(codec.RespSuccess)
		hb := heartbeat("c1")
		hb.ProducerDataSet = []*body.ProducerData{{GroupName: "P"}}
		require.Equal(t, codec.RespSuccess, asks.tryBeat(hb).Code)
		answer := b.do(replyRequest(code, replyProps("c1"), []byte("yes")))
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		require.Equal(t, "DefaultRegion", answer.Get(codec.PropMsgRegion))
		require.Equal(t, "true", answer.Get(codec.PropTraceSwitch))
		var h codec.SendMessageResponseHeader
		require.NoError(t, codec.DecodeHeader(answer, &h))
		require.Zero(t, h.QueueID)
		require.Zero(t, h.QueueOffset)
		push := <-asks.requests
		require.Equal(t, codec.ReqPushReplyMessageToClient, push.Code)
		require.False(t, push.IsOneway())
		require.Equal(t, "yes", string(push.Body))
		var got codec.ReplyMessageRequestHeader
		require.NoError(t, codec.DecodeHeader(push, &got))
		require.Equal(t, replyTopic, got.Topic)
		require.Equal(t, b.LocalAddr().String(), got.BornHost)
		require.Equal(t, b.AdvertisedAddr(), got.StoreHost)
		require.EqualValues(t, 12345, got.BornTimestamp)
		require.True(t, strings.HasPrefix(got.Properties, replyProps("c1")+"PUSH_REPLY_TIME\x01"), got.Properties)
		if !stored {
			require.Equal(t, "0", h.MsgID)
			require.Empty(t, b.all(replyTopic, 0))
			return
		}
		b.waitQueue(replyTopic, 0, 1)
		rec := b.all(replyTopic, 0)[0]
		require.Equal(t, "yes", string(rec.Body))
		require.Equal(t, replyProps("c1"), string(rec.Properties), "as they came")
		require.Equal(t, offsetMsgID(b.storeHost, rec.PhyOffset), h.MsgID)
		again := b.do(replyRequest(code, replyProps("c1"), []byte("yes")))
		require.Equal(t, "1", again.Get("queueOffset"))
		require.EqualValues(t, 2, b.stats.Counter(stats.TopicPutNums, replyTopic).Load())
	}
	f(t, "", codec.ReqSendReplyMessageV2, true)
	f(t, "", codec.ReqSendReplyMessage, true)
	f(t, "flushDiskType=SYNC_FLUSH\n", codec.ReqSendReplyMessageV2, true)
	f(t, "storeReplyMessageEnable=false\n", codec.ReqSendReplyMessageV2, false)
}

// What keeps a reply from its requester is code 1 with Java's remark; it is stored all the same.
func TestReplyThatIsNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		asks := b.dial()
		asks.produce("c1", "P")
		n := 0
		f := func(props, remark string) {
			t.Helper()
			answer := b.do(replyRequest(codec.ReqSendReplyMessageV2, props, []byte("yes")))
			require.Equal(t, codec.RespSystemError, answer.Code)
			require.Equal(t, remark, answer.Remark)
			require.Equal(t, fmt.Sprint(n), answer.Get("queueOffset"), "stored")
			require.Equal(t, "true", answer.Get(codec.PropTraceSwitch))
			n++
		}
		f("MSG_TYPE\x01reply\x02", "reply message properties[REPLY_TO_CLIENT] is null")
		f(replyProps("nobody"), "push reply message fail, channel of <nobody> not found.")
		asks.serve = confirms(codec.RespSystemError)
		f(replyProps("c1"), "push reply message to c1fail.")
		asks.serve = nil
		began := time.Now()
		f(replyProps("c1"), "push reply message to c1fail.")
		require.InDelta(t, 10, time.Since(began).Seconds(), 0.5)
		pending := b.begin(replyRequest(codec.ReqSendReplyMessageV2, replyProps("c1"), []byte("yes")))
		synctest.Wait()
		asks.Conn.Close()
		require.Equal(t, "push reply message to c1fail.", await(t, pending).Remark, "the requester is gone")
		n++
		synctest.Wait()
		f(replyProps("c1"), "push reply message fail, channel of <c1> not found.")
		synctest.Wait()
		require.Len(t, b.all(replyTopic, 0), n)
	})
}

// A client that has sent no heartbeat yet gets its reply on the connection its request came by (client-go sends its
// first heartbeat a second after its start).
func TestReplyBeforeTheFirstHeartbeat(t *testing.T) {
	f := func(t *testing.T, conf string) {
		synctest.Test(t, func(t *testing.T) {
			b := virtual(t, conf)
			asks := b.dial()
			asks.serve = confirms(codec.RespSuccess)
			asks.mustSend("T", 0, "CORRELATION_ID\x01id-1\x02REPLY_TO_CLIENT\x01c1\x02", "please")
			reply := func() *codec.Command {
				return b.do(replyRequest(codec.ReqSendReplyMessage, replyProps("c1"), nil))
			}
			answer := reply()
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			push := <-asks.requests
			require.Empty(t, push.Body, "a reply without body, as the Go client sends it")

			// The request's retry is sent by who consumes it, under the name of who asked.
			consumes := b.dial()
			b.createGroup("G", nil)
			consumes.mustSend("%RETRY%G", 0, "REPLY_TO_CLIENT\x01c1\x02", "again")
			require.Equal(t, codec.RespSuccess, reply().Code)
			require.Empty(t, consumes.requests)
			require.Len(t, asks.requests, 1)

			asks.Conn.Close()
			synctest.Wait()
			require.Equal(t, codec.RespSystemError, reply().Code)
			require.Zero(t, b.requesters.Len())
		})
	}
	f(t, "")
	f(t, "sendOnLoop=false\n")
}

// What the send checks refuse is not pushed either; what the store refuses is.
func TestReplyChecks(t *testing.T) {
	b := startBroker(t, "maxMessageSize=1000\n")
	asks := b.dial()
	asks.serve = confirms(codec.RespSuccess)
	asks.produce("c1", "P")
	f := func(code int, data []byte, props string, alter func(req *codec.Command)) *codec.Command {
		t.Helper()
		req := replyRequest(codec.ReqSendReplyMessageV2, replyProps("c1")+props, data)
		if alter != nil {
			alter(req)
		}
		answer := b.do(req)
		require.Equal(t, code, answer.Code, answer.Remark)
		return answer
	}
	set := func(name, value string) func(*codec.Command) {
		return func(req *codec.Command) {
			for i := range req.Fields {
				if string(req.Fields[i].Key) == name {
					req.Fields = append(req.Fields[:i], req.Fields[i+1:]...)
					break
				}
			}
			req.Set(name, value)
		}
	}
	f(codec.RespInvalidParameter, []byte("yes"), "", set("e", "1"))
	f(codec.RespInvalidParameter, []byte("yes"), "", set("e", "x"))
	f(codec.RespNoPermission, []byte("yes"), "", set("b", codec.HalfTopic))
	f(codec.RespInvalidParameter, []byte("yes"), "", set("b", "no/topic"))
	require.Empty(t, asks.requests)
	pushed := func(answer *codec.Command) {
		t.Helper()
		require.Equal(t, "0", answer.Get("msgId"))
		<-asks.requests
	}
	pushed(f(codec.RespSuccess, make([]byte, 1001), "", nil))
	pushed(f(codec.RespSuccess, []byte("yes"), "DELAY\x01soon\x02", nil))
	pushed(f(codec.RespSuccess, []byte("yes"), "TIMER_DELAY_SEC\x01999999999\x02", nil))
	require.Zero(t, b.store.MaxOffset(replyTopic, 0))

	f(codec.RespSuccess, []byte("yes"), "DELAY\x011\x02", nil)
	require.Equal(t, "yes", string((<-asks.requests).Body), "at once: only what is stored is delayed")
	b.waitQueue(codec.ScheduleTopic, 0, 1)
	f(codec.RespSuccess, []byte("yes"), "", set("e", "-1"))
	<-asks.requests
	b.waitQueue(replyTopic, 0, 1)

	packed := replyRequest(codec.ReqSendReplyMessageV2, replyProps("c1"), []byte("squeezed"))
	set("f", "769")(packed) // compressed, zlib
	require.Equal(t, codec.RespSuccess, b.do(packed).Code)
	require.Equal(t, "769", (<-asks.requests).Get("sysFlag"))
	b.eventually(func() bool { return len(b.all(replyTopic, 0)) >= 2 })
	last := b.all(replyTopic, 0)
	require.EqualValues(t, 769, last[len(last)-1].SysFlag, "Java forgets how to read the stored body")
	oneway := replyRequest(codec.ReqSendReplyMessageV2, replyProps("c1"), []byte("yes"))
	require.NoError(t, b.Oneway(oneway))
	<-asks.requests
}

// Replies as real clients sent them: the push has the fields of Java's, and the answer too.
func TestGoldenReplies(t *testing.T) {
	f := func(t *testing.T, dir, name string) {
		b := startBroker(t, "")
		_, reqs := goldenFrames(t, dir, name+"-req")
		_, answers := goldenFrames(t, dir, name+"-resp")
		_, pushes := goldenFrames(t, dir, "326-push-reply-message-to-client-req-push")
		require.NotEmpty(t, reqs)
		require.Len(t, answers, 1)
		require.Len(t, pushes, 1)
		for _, req := range reqs {
			var h codec.SendMessageHeader
			require.NoError(t, h.Decode(req))
			props := codec.ParseProperties(h.Properties.AppendValue(nil))
			asks := b.dial()
			asks.serve = confirms(codec.RespSuccess)
			asks.produce(props[codec.PropReplyToClient], "P")
			answer := b.do(req)
			compareGolden(t, name, answers[0], answer)
			push := <-asks.requests
			require.Equal(t, fieldNames(pushes[0]), fieldNames(push))
			require.Equal(t, pushes[0].Flag, push.Flag)
			require.Equal(t, string(req.Body), string(push.Body))
			got := codec.ParseProperties([]byte(push.Get("properties")))
			delete(got, codec.PropPushReplyTime)
			require.Equal(t, props, got)
		}
	}
	f(t, "java-5.3", "325-send-reply-message-v2")
	f(t, "java-4.9", "325-send-reply-message-v2")
	f(t, "java-5.3-binary", "325-send-reply-message-v2")
}

// A stored reply is there after a kill; the requester gets its replies again as soon as it is known again.
func TestRepliesOverKill(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/data"))
	b := start(t, setup{fs: fsys, conf: "flushDiskType=SYNC_FLUSH\n"})
	for i := range 3 {
		asks := b.dial()
		asks.serve = confirms(codec.RespSuccess)
		reply := func() *codec.Command {
			return b.do(replyRequest(codec.ReqSendReplyMessageV2, replyProps("c1"), fmt.Append(nil, "reply", i)))
		}
		if i > 0 {
			require.Equal(t, "push reply message fail, channel of <c1> not found.", reply().Remark)
		}
		asks.mustSend("T", 0, "REPLY_TO_CLIENT\x01c1\x02", "please")
		answer := reply()
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		<-asks.requests
		asks.Conn.Close()
		b = b.kill()
		b.waitQueue(replyTopic, 0, 2*i+1)
		last := b.all(replyTopic, 0)
		require.Equal(t, fmt.Sprint("reply", i), string(last[len(last)-1].Body))
	}
}
