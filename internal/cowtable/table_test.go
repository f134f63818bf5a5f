package cowtable

import (
	"maps"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table[int]
		model := map[string]*int{}
		for step := range rapid.IntRange(1, 100).Draw(t, "steps") {
			name := strconv.Itoa(rapid.IntRange(0, 20).Draw(t, "name"))
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				table.Load(model)
			case 1, 2:
				table.Set(name, nil)
				delete(model, name)
			default:
				table.Set(name, &step)
				model[name] = &step
			}
			require.Same(t, model[name], table.Get(name))
			require.Same(t, table.Get(name), table.GetBytes([]byte(name)))
			require.Equal(t, model, maps.Collect(table.All()))
		}
		for name := range table.All() {
			_ = name
			break // a reader may stop
		}
	})
}

func TestTableReadsAllocateNothing(t *testing.T) {
	var table Table[int]
	table.Set("a", new(int))
	name := []byte("a")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if table.GetBytes(name) == nil || table.Get("b") != nil {
			t.Error("wrong")
		}
	}))
}
