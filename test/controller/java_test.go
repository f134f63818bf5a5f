//go:build interop

package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/javaoracle"
	"skylark/test/internal/rig"
)

// question is one request of the script that both controllers get.
type question struct {
	about   string
	code    int
	header  any
	body    string
	differs string // why the answers differ, on purpose
}

// brokerAt is an address where nobody listens.
func brokerAt(id int64) string { return fmt.Sprintf("127.0.0.%d:1", id) }

// script goes through the life of two brokers, with everything that can be wrong on the way.
func script() []question {
	i64 := func(n int64) *int64 { return &n }
	i32 := func(n int32) *int32 { return &n }
	beat := func(id, offset int64, epoch, priority int32) question {
		off := codec.PhyOffset(offset)
		return question{about: fmt.Sprint("heartbeat of ", id), code: codec.ReqBrokerHeartbeat,
			header: &codec.BrokerHeartbeatRequestHeader{ClusterName: "c", BrokerName: "b", BrokerAddr: brokerAt(id),
				BrokerID: &id, Epoch: &epoch, MaxOffset: &off, ConfirmOffset: &off, HeartbeatTimeoutMillis: i64(60000),
				ElectionPriority: &priority}}
	}
	next := question{about: "next id", code: codec.ReqControllerGetNextBrokerID,
		header: &codec.GetNextBrokerIDRequestHeader{ClusterName: "c", BrokerName: "b"}}
	apply := func(id int64, check string) question {
		return question{about: fmt.Sprint("apply ", id, check), code: codec.ReqControllerApplyBrokerID,
			header: &codec.ApplyBrokerIDRequestHeader{ClusterName: "c", BrokerName: "b", AppliedBrokerID: &id,
				RegisterCheckCode: brokerAt(id) + check}}
	}
	register := func(id int64) question {
		return question{about: fmt.Sprint("register ", id), code: codec.ReqControllerRegisterBroker,
			header: &codec.RegisterBrokerToControllerRequestHeader{ClusterName: "c", BrokerName: "b", BrokerID: &id,
				BrokerAddress: brokerAt(id)}}
	}
	elect := func(id int64, designate bool) question {
		return question{about: fmt.Sprint("elect ", id, designate), code: codec.ReqControllerElectMaster,
			header: &codec.ElectMasterRequestHeader{ClusterName: "c", BrokerName: "b", BrokerID: id, DesignateElect: designate}}
	}
	alter := func(master int64, epoch int32, set string) question {
		return question{about: fmt.Sprint("alter ", master, epoch, set), code: codec.ReqControllerAlterSyncStateSet,
			header: &codec.AlterSyncStateSetRequestHeader{BrokerName: "b", MasterBrokerID: i64(master), MasterEpoch: i32(epoch)},
			body:   set}
	}
	info := question{about: "replica info", code: codec.ReqControllerGetReplicaInfo,
		header: &codec.GetReplicaInfoRequestHeader{BrokerName: "b"}}
	data := question{about: "sync state data", code: codec.ReqControllerGetSyncStateData, body: `["b","nobody"]`}
	clean := func(ids string, living bool) question {
		return question{about: "clean " + ids, code: codec.ReqCleanBrokerData, header: &codec.CleanBrokerDataRequestHeader{
			ClusterName: "c", BrokerName: "b", BrokerControllerIDsToClean: ids, IsCleanLivingBroker: living}}
	}
	garbled := clean("x", false)
	garbled.differs = "the remark ends with the reason in Java's words there, in Go's here"
	unregistered := elect(9, false)
	unregistered.differs = "Java elects nobody, since its master lives; here the id is refused"
	return []question{
		next, info, data, register(1), elect(1, false), alter(1, 1, `{"syncStateSet":[1],"syncStateSetEpoch":1}`), clean("", false),
		apply(2, ";5"), apply(1, ";5"), apply(1, ";5"), apply(1, ";6"), next, info, register(1), register(2),
		beat(1, 100, 0, 5), elect(1, false), info, data, register(1), elect(1, false),
		apply(2, ";5"), apply(3, ";5"), register(2), elect(2, false), unregistered,
		beat(2, 100, 0, 1), beat(3, 90, 0, 0), elect(3, false),
		alter(2, 1, `{"syncStateSet":[1,2],"syncStateSetEpoch":1}`), alter(1, 2, `{"syncStateSet":[1,2],"syncStateSetEpoch":1}`),
		alter(1, 1, `{"syncStateSet":[1,2],"syncStateSetEpoch":2}`), alter(1, 1, `{"syncStateSet":[1,4],"syncStateSetEpoch":1}`),
		alter(1, 1, `{"syncStateSet":[2],"syncStateSetEpoch":1}`), alter(1, 1, `{"syncStateSet":[1],"syncStateSetEpoch":1}`),
		alter(1, 1, `{"syncStateSet":[1,2],"syncStateSetEpoch":1}`), info, data,
		elect(3, true), elect(2, true), info, data, elect(2, true), alter(1, 1, `{"syncStateSet":[1,2],"syncStateSetEpoch":3}`),
		clean("", false), clean("3", false), garbled, clean("", true), next, info, data,
	}
}

// shown is an answer as it can be compared: fields sorted, JSON with sorted members.
func shown(t *testing.T, a *codec.Command, addr string) string {
	fields := map[string]string{}
	for i := range a.Fields {
		fields[string(a.Fields[i].Key)] = strings.ReplaceAll(a.Fields[i].Text(), addr, "SELF")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q", codec.ResponseCodeName(a.Code), a.Remark)
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&b, " %s=%s", k, fields[k])
	}
	if len(a.Body) > 0 {
		var v any
		if json.Unmarshal(a.Body, &v) != nil { // fastjson's member names without quotes
			var r body.ElectMasterResponseBody
			require.NoError(t, body.Decode(a.Body, &r), "%s", a.Body)
			v = r
		}
		text, err := json.Marshal(v)
		require.NoError(t, err)
		b.WriteString(" " + string(text))
	}
	return b.String()
}

// The same questions to a Java controller and to ours give the same answers, but for what docs/compat.md says.
func TestAnswersLikeJava(t *testing.T) {
	s := newSite(t)
	java, err := javaoracle.Server{CacheDir: rig.WorkDir(t), Dir: filepath.Join(s.dir, "java"), HeapMiB: 256}.
		StartController(t.Context(), *flagPort+80)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, java.Kill()) })
	conf := fmt.Sprintf("controllerDLegerGroup=g\ncontrollerDLegerPeers=n0-%s\ncontrollerDLegerSelfId=n0\n"+
		"controllerStorePath=%s\n", address(81), filepath.Join(s.dir, "ours"))
	startSkylark(t, s.dir, "controller", "ours", conf)
	ask := func(addr string, q question) *codec.Command {
		req := codec.NewRequest(q.code)
		if q.header != nil {
			codec.EncodeHeader(req, q.header)
		}
		if q.body != "" {
			req.Body = []byte(q.body)
		}
		ctx, cancel := s.ctx()
		defer cancel()
		a, err := s.client.Call(ctx, addr, req)
		require.NoError(t, err, q.about)
		return a
	}
	metadata := question{about: "metadata", code: codec.ReqControllerGetMetadataInfo}
	next := question{about: "ready", code: codec.ReqControllerGetNextBrokerID,
		header: &codec.GetNextBrokerIDRequestHeader{ClusterName: "c", BrokerName: "b"}}
	for _, addr := range []string{address(80), address(81)} {
		require.Eventually(t, func() bool {
			ctx, cancel := s.ctx()
			defer cancel()
			_, err := s.client.Do(ctx, addr, codec.NewRequest(codec.ReqControllerGetMetadataInfo))
			return err == nil && ask(addr, next).Code == codec.RespSuccess
		}, readyTimeout, 100*time.Millisecond, "%s leads", addr)
	}
	for i, q := range append([]question{metadata}, script()...) {
		a, b := shown(t, ask(address(80), q), address(80)), shown(t, ask(address(81), q), address(81))
		if q.differs == "" {
			require.Equal(t, a, b, "question %d: %s", i, q.about)
		} else {
			require.NotEqual(t, a, b, "question %d: %s: %s", i, q.about, q.differs)
		}
	}
}
