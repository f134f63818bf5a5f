package broker

import (
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// A store of DLedger, or the wish for one, is refused with the way out; nothing of it is touched.
func TestDLedgerIsRefused(t *testing.T) {
	f := func(conf string, dirs []string, want string) {
		t.Helper()
		fs := vfs.NewMem()
		for _, dir := range dirs {
			require.NoError(t, vfs.MkdirAllSync(fs, dir))
		}
		b, err := tryStart(t, setup{conf: conf, fs: fs})
		if want == "" {
			require.NoError(t, err)
			b.stop()
			return
		}
		require.ErrorIs(t, err, ErrDLedger)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "controller and haAckRule=majority")
		_, err = fs.Stat("/data/commitlog")
		require.Error(t, err, "nothing was made before it refused")
	}
	f("enableDLegerCommitLog=true\ndLegerGroup=g\ndLegerSelfId=n0\n", nil, "enableDLegerCommitLog=true")
	f("", []string{"/data/dledger-n0/data"}, "/data/dledger-n0 has messages")
	f("storePathDLedgerCommitLog=/elsewhere/dledger\n", []string{"/elsewhere/dledger/data"},
		"/elsewhere/dledger (storePathDLedger")
	f("storePathDLedgerCommitLog=/elsewhere/dledger\n", []string{path.Join("/elsewhere", "dledger")}, "")
	f("storePathDLedgerCommitLog=/elsewhere/dledger\n", nil, "")
	f("dLegerGroup=g\ndLegerSelfId=n0\n", []string{"/data/commitlog"}, "")
	f("", nil, "")
}
