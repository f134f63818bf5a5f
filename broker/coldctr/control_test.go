package coldctr

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/config"
	"skylark/internal/clock"
)

func control(change func(c *config.BrokerConfig)) (*Control, *config.BrokerConfig) {
	cfg := config.NewBrokerSet().Broker()
	cfg.CgColdReadThreshold, cfg.GlobalColdReadThreshold = 1000, 10000
	if change != nil {
		change(cfg)
	}
	return New(cfg, true, clock.System), cfg
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := control(nil)
		require.False(t, c.Limited("g"))
		c.Count("g", 0)
		require.Empty(t, c.Info().RuntimeTable)
		c.Count("g", 999)
		require.False(t, c.Limited("g"))
		c.Count("g", 1)
		require.True(t, c.Limited("g"))
		require.False(t, c.Limited("other"), "has read nothing")
		require.NoError(t, c.Set("g", 5000))
		require.False(t, c.Limited("g"))
		c.Count("other", 9000)
		require.True(t, c.Limited("g"), "all together are over the limit")
		c.Step()
		require.False(t, c.Limited("g"))
		require.Zero(t, c.Info().GlobalAcc)
		c.Remove("g")
		c.Count("g", 1000)
		require.True(t, c.Limited("g"))
		time.Sleep(time.Minute)
		c.Count("other", 1)
		c.Step()
		require.Len(t, c.Info().RuntimeTable, 1, "who has caught up is forgotten")
	})
}

func TestOff(t *testing.T) {
	c := New(config.NewBrokerSet().Broker(), false, clock.System)
	c.Count("g", 1<<40)
	require.False(t, c.Limited("g"))
	require.False(t, c.Enabled())
}

func TestSimpleStrategy(t *testing.T) {
	c, cfg := control(func(c *config.BrokerConfig) { c.ColdCtrStrategyEnable, c.UsePIDColdCtrStrategy = true, false })
	require.NoError(t, c.Set("set", 100))
	for range 3 {
		c.Count("set", 500)
		c.Count("g", 5000)
		c.Step()
	}
	require.EqualValues(t, 3375, c.Threshold("g"), "half as much again, three times")
	require.EqualValues(t, 100, c.Threshold("set"), "the administrator's stays")
	for i := range 4 {
		c.adaptive[fmt.Sprint("h", i)] = 2000 + int64(i)
	}
	c.Count("g", 20000)
	c.Step()
	require.EqualValues(t, 2696, c.Threshold("g"))
	require.EqualValues(t, 1600, c.Threshold("h3"))
	require.EqualValues(t, 2001, c.Threshold("h1"), "three at a time")
	for range 20 {
		c.Count("g", 20000)
		c.Step()
	}
	require.EqualValues(t, 1000, c.Threshold("g"), "not below the threshold of all")
	cfg.ColdCtrStrategyEnable = false
	c.Step()
	require.Empty(t, c.adaptive)
}

func TestPIDStrategy(t *testing.T) {
	c, _ := control(func(c *config.BrokerConfig) { c.ColdCtrStrategyEnable, c.UsePIDColdCtrStrategy = true, true })
	for range pidHistory - 1 {
		c.Count("g", 2000)
		c.Step()
	}
	require.EqualValues(t, 1000, c.Threshold("g"), "ten intervals are awaited")
	c.Count("g", 2000)
	c.Step()
	require.EqualValues(t, 1500, c.Threshold("g"))
	for range pidHistory {
		c.Count("g", 9999)
		c.Step()
	}
	high := c.Threshold("g")
	for range 2 * pidHistory {
		c.Count("g", 50000)
		c.Step()
	}
	require.Less(t, c.Threshold("g"), high)
	require.GreaterOrEqual(t, c.Threshold("g"), int64(1000))
}

func TestTablesAreBounded(t *testing.T) {
	c, _ := control(nil)
	for i := range MaxGroups {
		c.Count(fmt.Sprint(i), 1)
		require.NoError(t, c.Set(fmt.Sprint(i), 1))
	}
	c.Count("more", 1)
	require.ErrorIs(t, c.Set("more", 1), ErrTooManyGroups)
	require.NoError(t, c.Set("1", 2))
	require.Len(t, c.Info().RuntimeTable, MaxGroups)
	require.EqualValues(t, MaxGroups+1, c.Info().GlobalAcc)
}

func TestInfoHasJavasNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := control(func(c *config.BrokerConfig) { c.ColdCtrStrategyEnable = true })
		c.Count("g", 7)
		require.NoError(t, c.Set("h", 8))
		c.adaptive["g"] = 9
		text, err := json.Marshal(c.Info())
		require.NoError(t, err)
		now := time.Now().UnixMilli()
		require.JSONEq(t, fmt.Sprintf(`{"runtimeTable":{"g":{"coldAcc":7,"createTimeMills":%d,"lastColdReadTimeMills":%d}},
			"configTable":{"h":8,"g||adaptive":9},"cgColdReadThreshold":1000,"globalColdReadThreshold":10000,"globalAcc":7}`,
			now, now), string(text))
	})
}
