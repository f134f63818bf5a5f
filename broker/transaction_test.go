package broker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// quickTransactions are the settings of case B23.
const quickTransactions = "transactionTimeOut=1000\ntransactionCheckInterval=1000\ntransactionCheckMax=3\n"

// halfProps are those of a half message as the Java client sends it.
func halfProps(group string, more ...string) string {
	props := "TRAN_MSG\x01true\x02"
	if group != "" {
		props += "PGROUP\x01" + group + "\x02"
	}
	for i := 0; i < len(more); i += 2 {
		props += more[i] + "\x01" + more[i+1] + "\x02"
	}
	return props
}

// sendHalf stores a half message and gives what its producer needs to end it.
func (p *peer) sendHalf(topicName, group, data string, more ...string) codec.EndTransactionRequestHeader {
	p.t.Helper()
	answer := p.mustSend(topicName, 1, halfProps(group, more...), data)
	var h codec.SendMessageResponseHeader
	require.NoError(p.t, codec.DecodeHeader(answer, &h))
	require.EqualValues(p.t, 1, h.QueueID)
	require.NotEmpty(p.t, h.TransactionID)
	_, at, err := codec.ParseOffsetMsgID(h.MsgID)
	require.NoError(p.t, err)
	return codec.EndTransactionRequestHeader{Topic: topicName, ProducerGroup: group, TranStateTableOffset: h.QueueOffset,
		CommitLogOffset: at, MsgID: h.TransactionID, TransactionID: h.TransactionID}
}

// endTransaction ends one and gives the answer.
func (p *peer) endTransaction(h codec.EndTransactionRequestHeader, state int32) *codec.Command {
	p.t.Helper()
	h.CommitOrRollback = state
	return p.call(codec.ReqEndTransaction, &h, nil)
}

func (p *peer) mustEnd(h codec.EndTransactionRequestHeader, state int32) {
	p.t.Helper()
	answer := p.endTransaction(h, state)
	require.Equal(p.t, codec.RespSuccess, answer.Code, answer.Remark)
}

// produce registers a producer of a group.
func (p *peer) produce(clientID, group string) {
	p.t.Helper()
	hb := heartbeat(clientID)
	hb.ProducerDataSet = []*body.ProducerData{{GroupName: group}}
	require.Equal(p.t, codec.RespSuccess, p.tryBeat(hb).Code)
}

// checks are the questions about transactions that came to a peer until now.
func (p *peer) checks() (out []codec.CheckTransactionStateRequestHeader) {
	for {
		select {
		case req := <-p.requests:
			require.Equal(p.t, codec.ReqCheckTransactionState, req.Code)
			require.True(p.t, req.IsOneway())
			var h codec.CheckTransactionStateRequestHeader
			require.NoError(p.t, codec.DecodeHeader(req, &h))
			out = append(out, h)
		default:
			return out
		}
	}
}

// answerTo makes the END_TRANSACTION that answers a question.
func answerTo(group string, q codec.CheckTransactionStateRequestHeader) codec.EndTransactionRequestHeader {
	return codec.EndTransactionRequestHeader{ProducerGroup: group, TranStateTableOffset: q.TranStateTableOffset,
		CommitLogOffset: q.CommitLogOffset, FromTransactionCheck: true, MsgID: q.MsgID, TransactionID: q.TransactionID}
}

func texts(list []codec.Record) (out []string) {
	for _, rec := range list {
		out = append(out, string(rec.Body))
	}
	return out
}

func virtualBroker(t *testing.T, conf string) *testBroker {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/data"))
	return start(t, setup{conf: conf, fs: fsys, virtual: true})
}

func TestTransaction(t *testing.T) {
	f := func(t *testing.T, conf string) {
		synctest.Test(t, func(t *testing.T) {
			b := virtualBroker(t, quickTransactions+conf)
			commit := b.sendHalf("T", "pg", "commit", "TAGS", "a")
			back := b.sendHalf("T", "pg", "back")
			open := b.sendHalf("T", "pg", "open")
			b.mustEnd(commit, codec.SysFlagTransactionCommit)
			b.mustEnd(back, codec.SysFlagTransactionRollback)
			b.mustEnd(commit, codec.SysFlagTransactionCommit) // again
			require.Equal(t, codec.RespSystemError, b.endTransaction(commit, codec.SysFlagTransactionRollback).Code)
			synctest.Wait()
			answer, _ := b.pull("T", 1, 0)
			require.Equal(t, []string{"commit"}, bodies(t, answer))
			rec := records(t, answer.Body)[0]
			require.Equal(t, codec.SysFlagTransactionCommit, rec.TransactionState())
			require.Equal(t, commit.CommitLogOffset, rec.PreparedTransactionOffset)
			id, _ := rec.Property(codec.PropUniqKey)
			require.Equal(t, commit.TransactionID, string(id))
			info := b.RuntimeInfo()
			require.Equal(t, "1", info["transactionOpen"])
			require.Equal(t, "1", info["transactionCommittedTotal"])
			require.Equal(t, "1", info["transactionRolledBackTotal"])
			b = b.restart()
			b.mustEnd(open, codec.SysFlagTransactionCommit)
			synctest.Wait()
			require.Equal(t, []string{"commit", "open"}, texts(b.all("T", 1)))
		})
	}
	f(t, "")
	f(t, "flushDiskType=SYNC_FLUSH\n")
	f(t, "sendOnLoop=false\n")
}

// A question goes to a live producer, whichever of the group; an unknown state gets no answer (case B23 b, c, f).
func TestTransactionCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtualBroker(t, quickTransactions)
		first := b.dial()
		first.produce("first", "pg")
		half := first.sendHalf("T", "pg", "m", "k", "v")
		req := request(codec.ReqEndTransaction, &half, nil) // 0: unknown
		_, err := first.Go(req, func(*codec.Command, error) {})
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.NotEmpty(t, first.checks())
		first.Close()
		synctest.Wait()
		half = b.sendHalf("T", "pg", "n", "k", "v")
		time.Sleep(time.Minute + 300*time.Millisecond) // nobody is there: no attempt is lost
		require.Equal(t, "1", b.RuntimeInfo()["transactionWithoutProducer"])
		second := b.dial()
		second.produce("second", "pg")
		time.Sleep(2 * time.Second)
		asked := second.checks()
		require.NotEmpty(t, asked)
		require.Equal(t, "broker-a", asked[0].BrokerName)
		require.Equal(t, half.TransactionID, asked[0].TransactionID)
		second.mustEnd(answerTo("pg", asked[len(asked)-1]), codec.SysFlagTransactionCommit)
		second.mustEnd(half, codec.SysFlagTransactionCommit)
		time.Sleep(10 * time.Second)
		require.Empty(t, second.checks())
		require.Equal(t, []string{"n"}, texts(b.all("T", 1)))
	})
}

// Given up after transactionCheckMax questions, then brought back by RESUME_CHECK_HALF_MESSAGE (323), once.
func TestTransactionGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtualBroker(t, quickTransactions)
		b.produce("c", "pg")
		b.sendHalf("T", "pg", "m")
		time.Sleep(20 * time.Second)
		require.Len(t, b.checks(), 3)
		list := b.Transactions().GivenUp()
		require.Len(t, list, 1)
		require.Equal(t, []string{"m"}, texts(b.all(codec.TransCheckMaxTimeTopic, 0)))
		resume := func(msgID string) *codec.Command {
			return b.call(codec.ReqResumeCheckHalfMessage,
				&codec.ResumeCheckHalfMessageRequestHeader{Topic: codec.TransCheckMaxTimeTopic, MsgID: msgID}, nil)
		}
		require.Equal(t, codec.RespSystemError, resume("nonsense").Code)
		require.Equal(t, codec.RespSystemError, resume(offsetMsgID(b.storeHost, 0)).Code)
		require.Equal(t, codec.RespSuccess, resume(list[0].MsgID()).Code)
		require.Equal(t, codec.RespSystemError, resume(list[0].MsgID()).Code)
		time.Sleep(3 * time.Second)
		asked := b.checks()
		require.NotEmpty(t, asked)
		b.mustEnd(answerTo("pg", asked[0]), codec.SysFlagTransactionCommit)
		synctest.Wait()
		require.Equal(t, []string{"m"}, texts(b.all("T", 1)))
	})
}

// What is wrong about an END_TRANSACTION is refused with 1 and the reason (case B24), also after a restart.
func TestTransactionRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtualBroker(t, quickTransactions)
		half := b.sendHalf("T", "pg", "m")
		groupless := b.sendHalf("T", "", "groupless")
		normal := b.mustSend("T", 1, "", "normal")
		var sent codec.SendMessageResponseHeader
		require.NoError(t, codec.DecodeHeader(normal, &sent))
		_, at, err := codec.ParseOffsetMsgID(sent.MsgID)
		require.NoError(t, err)
		f := func(want string, alter func(h *codec.EndTransactionRequestHeader)) {
			t.Helper()
			h := half
			alter(&h)
			for _, state := range []int32{codec.SysFlagTransactionCommit, codec.SysFlagTransactionRollback} {
				answer := b.endTransaction(h, state)
				require.Equal(t, codec.RespSystemError, answer.Code)
				require.True(t, strings.HasPrefix(answer.Remark, want), answer.Remark)
			}
		}
		all := func() {
			f("The producer group wrong", func(h *codec.EndTransactionRequestHeader) { h.ProducerGroup = "other" })
			f("The transaction state table offset wrong", func(h *codec.EndTransactionRequestHeader) {
				h.TranStateTableOffset++
			})
			f("Find prepared transaction message failed", func(h *codec.EndTransactionRequestHeader) { h.CommitLogOffset++ })
			f("Find prepared transaction message failed", func(h *codec.EndTransactionRequestHeader) { h.CommitLogOffset = at })
			f("Find prepared transaction message failed", func(h *codec.EndTransactionRequestHeader) {
				h.CommitLogOffset = -5
			})
			f("Find prepared transaction message failed", func(h *codec.EndTransactionRequestHeader) {
				h.CommitLogOffset = 1 << 50
			})
			f("The producer group wrong", func(h *codec.EndTransactionRequestHeader) {
				*h = groupless
				h.ProducerGroup = "pg"
			})
		}
		all()
		b = b.restart()
		all()
		noGroup := codec.NewRequest(codec.ReqEndTransaction)
		noGroup.SetInt("tranStateTableOffset", int64(half.TranStateTableOffset))
		noGroup.SetInt("commitLogOffset", int64(half.CommitLogOffset))
		noGroup.SetInt("commitOrRollback", int64(codec.SysFlagTransactionCommit))
		noGroup.Set("msgId", half.MsgID)
		answer := b.do(noGroup)
		require.Equal(t, codec.RespInvalidParameter, answer.Code)
		require.Contains(t, answer.Remark, "producerGroup")
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"normal"}, texts(b.all("T", 1)))
		require.Equal(t, "1", b.RuntimeInfo()["transactionOpen"], "the groupless one was given up")
	})
}

func TestTransactionForbidden(t *testing.T) {
	b := startBroker(t, "rejectTransactionMessage=true\n")
	answer := b.send("T", 0, halfProps("pg"), []byte("m"))
	require.Equal(t, codec.RespNoPermission, answer.Code)
	require.Contains(t, answer.Remark, "sending transaction message is forbidden")
	require.Equal(t, codec.RespNoPermission, b.send(codec.HalfTopic, 0, "", []byte("m")).Code)
	require.Equal(t, codec.RespNoPermission, b.send(codec.OpHalfTopic, 0, "", []byte("m")).Code)
}

// A slave ends nothing.
func TestTransactionOnASlave(t *testing.T) {
	b := startBroker(t, "brokerRole=SLAVE\nbrokerId=1\n")
	h := codec.EndTransactionRequestHeader{ProducerGroup: "pg", MsgID: "x"}
	require.Equal(t, codec.RespSlaveNotAvailable, b.endTransaction(h, codec.SysFlagTransactionCommit).Code)
}

// Kill -9 in the middle of many transactions on many connections: every committed one is seen once, nothing else is.
func TestTransactionKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtualBroker(t, strings.Replace(quickTransactions, "Max=3", "Max=1000", 1))
		for round := range 3 {
			done := make(chan struct{})
			for i := range 4 {
				p := b.dialWith(client.Options{})
				go func() {
					defer func() { done <- struct{}{} }()
					for n := range 25 {
						name := fmt.Sprint(round, "-", i, "-", n)
						h := p.sendHalf("T", "pg", name)
						switch n % 3 {
						case 0:
							p.mustEnd(h, codec.SysFlagTransactionCommit)
						case 1:
							p.mustEnd(h, codec.SysFlagTransactionRollback)
						}
					}
				}()
			}
			for range 4 {
				<-done
			}
			b = b.kill()
		}
		p := b.dialWith(client.Options{MaxHandlers: 1000})
		p.produce("c", "pg")
		time.Sleep(2500 * time.Millisecond)
		require.Equal(t, "96", b.RuntimeInfo()["transactionOpen"])
		asked := p.checks()
		require.Len(t, asked, 96)
		for _, q := range asked {
			b.mustEnd(answerTo("pg", q), codec.SysFlagTransactionRollback)
		}
		synctest.Wait()
		seen := map[string]int{}
		for _, rec := range b.all("T", 1) {
			seen[string(rec.Body)]++
		}
		require.Len(t, seen, 3*4*9)
		for name, n := range seen {
			require.Equal(t, 1, n, name)
		}
	})
}
