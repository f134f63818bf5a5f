package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/config"
)

// Tools that ask for the settings see what a standalone system runs with.
func TestSettleStandalone(t *testing.T) {
	f := func(text, host, advertised, ip, store string) {
		t.Helper()
		set, ns := config.NewBrokerSet(), config.NewNamesrvSet()
		file, err := config.Parse(text, "test.conf")
		require.NoError(t, err)
		_, err = set.Load(file)
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, settleStandalone(set, ns, dir, host))
		if store == "" {
			store = filepath.Join(dir, "store")
		}
		require.Equal(t, []string{advertised, ip, store}, []string{set.Own().AdvertiseAddr, set.Broker().BrokerIP1,
			set.Store().StorePathRootDir})
		require.Contains(t, set.Describe(), "\nstorePathRootDir="+store+"\n")
		require.Contains(t, ns.Describe(), "kvConfigPath="+filepath.Join(dir, "namesrv", "kvConfig.json")+"\n")
		if ip != "" {
			require.Contains(t, set.Describe(), "brokerIP1="+ip+"\n")
		}
	}
	f("brokerName=a\n", "", "", "127.0.0.1", "")
	f("brokerName=a\n", "mq.example", "mq.example:10911", "", "")
	f("brokerIP1=10.0.0.1\nstorePathRootDir=/var/store\n", "", "", "10.0.0.1", "/var/store")
}
