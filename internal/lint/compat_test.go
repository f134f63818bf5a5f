package lint

import (
	"bufio"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/broker"
	"skylark/codec"
	"skylark/config"
	"skylark/controller"
	"skylark/internal/vfs"
	"skylark/namesrv"
	"skylark/reactor/gnet"
)

// compatRow is a line of the table in docs/compat.md.
type compatRow struct{ name, by, state string }

func compatTable(t *testing.T) map[int]compatRow {
	f, err := os.Open(filepath.Join(root(t), "docs", "compat.md"))
	require.NoError(t, err)
	defer f.Close()
	out := map[int]compatRow{}
	for s := bufio.NewScanner(f); s.Scan(); {
		cells := strings.Split(s.Text(), "|")
		if len(cells) < 6 {
			continue
		}
		code, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		if err != nil {
			continue
		}
		require.NotContains(t, out, code, "listed twice")
		out[code] = compatRow{strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3]), strings.TrimSpace(cells[4])}
	}
	require.NotEmpty(t, out)
	return out
}

// callbacks are codes that we send and never serve.
var callbacks = []int{codec.ReqNotifyConsumerIDsChanged, codec.ReqResetConsumerClientOffset,
	codec.ReqGetConsumerStatusFromClient, codec.ReqPushReplyMessageToClient, codec.ReqNotifyMinBrokerIDChange,
	codec.ReqCheckTransactionState, codec.ReqNotifyBrokerRoleChanged}

func TestCompatTableSaysWhatIsServed(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	mem := vfs.NewMem()
	bs, ns := config.NewBrokerSet(), config.NewNamesrvSet()
	bs.Store().StorePathRootDir = "/store"
	ns.Namesrv().KvConfigPath = "/namesrv/kvConfig.json"
	b, err := broker.New(broker.Options{Config: bs, FS: mem, Log: log, NewEngine: gnet.New})
	require.NoError(t, err)
	defer b.Close(t.Context())
	n, err := namesrv.New(namesrv.Options{Config: ns, FS: mem, Log: log, NewEngine: gnet.New})
	require.NoError(t, err)
	cs := config.NewControllerSet()
	cs.Controller().ControllerDLegerGroup, cs.Controller().ControllerDLegerSelfId = "g", "n0"
	cs.Controller().ControllerDLegerPeers = "n0-127.0.0.1:9878"
	c, err := controller.New(controller.Options{Config: cs, FS: mem, Log: log})
	require.NoError(t, err)
	defer c.Close(t.Context())
	served := map[string][]int{"broker": b.RequestCodes(), "name server": n.RequestCodes(),
		"controller": c.RequestCodes()}
	table := compatTable(t)
	for who, codes := range served {
		for _, c := range codes {
			row, ok := table[c]
			require.True(t, ok, "code %d (%s) is served by the %s and not in docs/compat.md", c, codec.RequestCodeName(c), who)
			if row.state != "done" || !slices.Contains(strings.Split(row.by, ", "), who) {
				t.Errorf("code %d (%s) is served by the %s; docs/compat.md says %q by %q", c, row.name, who, row.state, row.by)
			}
		}
	}
	for c, row := range table {
		if name := codec.RequestCodeName(c); name != row.name {
			t.Errorf("code %d is %s; docs/compat.md calls it %s", c, name, row.name)
		}
		for who := range strings.SplitSeq(row.by, ", ") {
			if row.state == "done" && !slices.Contains(callbacks, c) && !slices.Contains(served[who], c) {
				t.Errorf("docs/compat.md says that the %s serves %d (%s); it does not", who, c, row.name)
			}
		}
	}
}
