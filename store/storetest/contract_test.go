package storetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
	"skylark/store"
	"skylark/store/storetest"
)

func open(o store.Options) (storetest.Store, error) { return store.Open(o) }

func TestContractOnMemFS(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (vfs.FS, string) {
		fs := vfs.NewMem()
		t.Cleanup(func() {
			require.Eventually(t, func() bool {
				files, mappings := fs.Handles()
				return files == 0 && mappings == 0
			}, 10*time.Second, time.Millisecond, "open files or live mappings")
		})
		return fs, "/store"
	}, open)
}

func TestContractOnDisk(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.OS, t.TempDir() }, open)
}
