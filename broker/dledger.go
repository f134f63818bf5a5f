package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"skylark/config"
	"skylark/internal/vfs"
)

// ErrDLedger refuses what DLedger wrote or would write: its CommitLog wraps every record in an entry of its own, so that
// neither the files nor the offsets in them are those of a plain store (spec ha.md §7). docs/ha.md tells how to move.
var ErrDLedger = errors.New("broker: DLedger is not supported")

// howToMove ends every refusal.
const howToMove = "Its place is taken by a controller and haAckRule=majority, with three replicas or more. To move: " +
	"set these up under a brokerName of their own in the same cluster, let producers write there (wipeWritePerm for the " +
	"old one), let consumers read the old brokers to their end, send again what has to be kept longer, then stop them. " +
	"See docs/ha.md, \"Coming from DLedger\""

// refuseDLedger looks for DLedger in the configuration and in the store's directories.
func refuseDLedger(files vfs.FS, sc *config.MessageStoreConfig) error {
	if sc.EnableDLegerCommitLog {
		return fmt.Errorf("%w: enableDLegerCommitLog=true. %s", ErrDLedger, howToMove)
	}
	if dir := sc.StorePathDLedgerCommitLog; dir != "" && dir != sc.StorePathRootDir {
		names, err := files.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("broker: storePathDLedgerCommitLog: %w", err)
		}
		if len(names) > 0 {
			return fmt.Errorf("%w: %s (storePathDLedgerCommitLog) has messages of it. %s", ErrDLedger, dir, leaveAside)
		}
	}
	names, err := files.List(sc.StorePathRootDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("broker: storePathRootDir: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "dledger-") {
			return fmt.Errorf("%w: %s has messages of it. %s", ErrDLedger, path.Join(sc.StorePathRootDir, name), leaveAside)
		}
	}
	return nil
}

// leaveAside is for a directory whose messages this broker would not have.
const leaveAside = "This broker would start without them. " + howToMove +
	". If nobody needs them any more, move the directory out of the store's"
