package namesrv

import (
	"io"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"skylark/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// defaultSet is Java's defaults.
func defaultSet() *config.Set {
	set := config.NewNamesrvSet()
	if _, err := set.Load(nil); err != nil {
		panic(err)
	}
	return set
}
