package config

import (
	"fmt"
	"strconv"
)

// Ports that Java's servers listen on unless told otherwise.
const (
	DefaultBrokerPort     = 10911
	DefaultNamesrvPort    = 9876
	DefaultControllerPort = 19876
)

// NewBrokerSet holds what a broker has: BrokerConfig, NettyServerConfig, NettyClientConfig,
// MessageStoreConfig, AuthConfig, OwnConfig, with listenPort 10911. After Load, as in Java's BrokerStartup:
// haListenPort 0 becomes listenPort + 1; a slave's accessMessageInMemoryMaxRatio is lowered by 10; without
// controller mode a master has brokerId 0 and a slave must have a larger one.
func NewBrokerSet() *Set {
	server, store := DefaultNettyServerConfig(), DefaultMessageStoreConfig()
	server.ListenPort = DefaultBrokerPort
	store.HaListenPort = 0
	s := newSet(DefaultBrokerConfig(), server, DefaultNettyClientConfig(), store,
		DefaultAuthConfig(), DefaultOwnConfig())
	s.settle = settleBroker
	s.check = checkBroker
	return s
}

// NewNamesrvSet holds what a name server has: NamesrvConfig, NettyServerConfig, NettyClientConfig,
// OwnConfig, and ControllerConfig for enableControllerInNamesrv, with listenPort 9876. Keys that the
// controller has too, as configStorePath, are the name server's when printed; that one is the loaded file,
// as in Java.
func NewNamesrvSet() *Set {
	server := DefaultNettyServerConfig()
	server.ListenPort = DefaultNamesrvPort
	s := newSet(DefaultControllerConfig(), DefaultNamesrvConfig(), server,
		DefaultNettyClientConfig(), DefaultOwnConfig())
	s.settle = func(sn snapshot, f *File) {
		if f != nil {
			pick[NamesrvConfig](sn).ConfigStorePath = f.Name
		}
	}
	s.check = checkServer
	return s
}

// NewControllerSet holds what a controller has: ControllerConfig, NettyServerConfig, NettyClientConfig,
// OwnConfig, with listenPort 19876.
func NewControllerSet() *Set {
	server := DefaultNettyServerConfig()
	server.ListenPort = DefaultControllerPort
	s := newSet(DefaultControllerConfig(), server, DefaultNettyClientConfig(), DefaultOwnConfig())
	s.settle = func(sn snapshot, f *File) {
		if f != nil {
			pick[ControllerConfig](sn).ConfigStorePath = f.Name
		}
	}
	s.check = checkServer
	return s
}

func settleBroker(sn snapshot, f *File) {
	b, store, server := pick[BrokerConfig](sn), pick[MessageStoreConfig](sn), pick[NettyServerConfig](sn)
	b.ListenPort = server.ListenPort
	if f != nil && b.BrokerConfigPath == "" {
		b.BrokerConfigPath = f.Name
	}
	if store.HaListenPort == 0 {
		store.HaListenPort = server.ListenPort + 1
	}
	if store.BrokerRole == Slave {
		store.AccessMessageInMemoryMaxRatio = max(0, store.AccessMessageInMemoryMaxRatio-10)
	} else if !b.EnableControllerMode {
		b.BrokerId = 0
	}
}

func checkBroker(sn snapshot, rep *report) {
	checkServer(sn, rep)
	b, store, server := pick[BrokerConfig](sn), pick[MessageStoreConfig](sn), pick[NettyServerConfig](sn)
	if store.BrokerRole == Slave && !b.EnableControllerMode && b.BrokerId == 0 {
		rep.add("brokerId", strconv.FormatInt(b.BrokerId, 10), "want a number above 0 for a slave")
	}
	if b.EnableControllerMode && store.EnableDLegerCommitLog {
		rep.add("enableDLegerCommitLog", "true", "want false together with enableControllerMode=true")
	}
	checkQuorum(sn, rep)
	if b.EnableControllerMode && b.ControllerAddr == "" {
		rep.add("controllerAddr", "", "want the addresses of the controllers for enableControllerMode=true")
	}
	if b.BrokerName == "" {
		rep.add("brokerName", "", "want a name")
	}
	if b.BrokerClusterName == "" {
		rep.add("brokerClusterName", "", "want a name")
	}
	rep.addrs("namesrvAddr", b.NamesrvAddr)
	rep.addrs("controllerAddr", b.ControllerAddr)
	if p := server.ListenPort; p != 0 && p < 3 {
		rep.add("listenPort", strconv.Itoa(p), "want at least 3: the fast port is listenPort - 2")
	}
	if p := store.HaListenPort; p != 0 && (p == server.ListenPort || p == server.ListenPort-2) {
		rep.add("haListenPort", strconv.Itoa(p), "want a port other than listenPort and listenPort - 2")
	}
	if p := store.HaListenPort; p > 65535 {
		rep.add("listenPort", strconv.Itoa(server.ListenPort), "want less, for haListenPort is listenPort + 1")
	}
	if _, err := DelayLevels(store.MessageDelayLevel); err != nil {
		rep.add("messageDelayLevel", store.MessageDelayLevel, err.Error())
	}
	if _, err := Hours(store.DeleteWhen); err != nil {
		rep.add("deleteWhen", store.DeleteWhen, err.Error())
	}
	if store.HaMasterAddress != "" {
		if err := CheckAddr(store.HaMasterAddress); err != nil {
			rep.add("haMasterAddress", store.HaMasterAddress, err.Error())
		}
	}
}

// checkQuorum looks at what haAckRule=majority needs.
func checkQuorum(sn snapshot, rep *report) {
	b, store, own := pick[BrokerConfig](sn), pick[MessageStoreConfig](sn), pick[OwnConfig](sn)
	switch {
	case own.HaAckRule != "majority":
	case !b.EnableControllerMode:
		rep.add("haAckRule", own.HaAckRule, "want enableControllerMode=true: who has the majority's messages is known by "+
			"controllers")
	case store.TotalReplicas < 3:
		rep.add("totalReplicas", strconv.Itoa(store.TotalReplicas), "want the number of replicas, 3 or more, with "+
			"haAckRule=majority: more than half of two are both")
	}
}

// checkServer looks at what all servers have.
func checkServer(sn snapshot, rep *report) {
	own, server := pick[OwnConfig](sn), pick[NettyServerConfig](sn)
	for key, addr := range map[string]string{
		"advertiseAddr": own.AdvertiseAddr, "haAdvertiseAddr": own.HaAdvertiseAddr,
	} {
		if addr == "" {
			continue
		}
		if err := CheckAddr(addr); err != nil {
			rep.add(key, addr, err.Error())
		}
	}
	if low := own.OutboundLowWatermark; low >= own.OutboundHighWatermark {
		rep.add("outboundLowWatermark", strconv.Itoa(low),
			fmt.Sprintf("want less than outboundHighWatermark=%d", own.OutboundHighWatermark))
	}
	if low, high := server.WriteBufferLowWaterMark, server.WriteBufferHighWaterMark; high > 0 && low > high {
		rep.add("writeBufferLowWaterMark", strconv.Itoa(low),
			fmt.Sprintf("want at most writeBufferHighWaterMark=%d", high))
	}
	if own.TlsServerMode == "enforcing" && !own.TlsTestModeEnable {
		if own.TlsServerKeyPath == "" || own.TlsServerCertPath == "" {
			rep.add("tls.server.mode", own.TlsServerMode,
				"want tls.server.keyPath and tls.server.certPath, or tls.test.mode.enable=true")
		}
	}
}

func (r *report) addrs(key, list string) {
	if _, err := SplitAddrs(list); err != nil {
		r.add(key, list, err.Error())
	}
}

// importantKeys are those that -m prints (Java's ImportantField).
var importantKeys = func() map[string]bool {
	m := make(map[string]bool)
	for _, key := range []string{
		"brokerName", "brokerClusterName", "brokerId", "namesrvAddr", "listenPort", "brokerIP1",
		"recoverConcurrently", "autoCreateTopicEnable", "autoCreateSubscriptionGroup", "msgTraceTopicName",
		"traceTopicEnable", "rejectTransactionMessage", "fetchNameSrvAddrByDnsLookup",
		"fetchNamesrvAddrByAddressServer", "transactionTimeOut", "transactionCheckMax",
		"transactionCheckInterval", "aclEnable", "storePathRootDir", "storePathCommitLog",
		"storePathDLedgerCommitLog", "storePathEpochFile", "storePathBrokerIdentity",
		"disappearTimeAfterStart", "storeType", "flushIntervalCommitLog", "commitIntervalCommitLog",
		"flushCommitLogTimed", "deleteWhen", "fileReservedTime", "deleteFileBatchMax",
		"maxTransferBytesOnMessageInMemory", "maxTransferCountOnMessageInMemory",
		"maxTransferBytesOnMessageInDisk", "maxTransferCountOnMessageInDisk",
		"accessMessageInMemoryMaxRatio", "messageIndexEnable", "messageIndexSafe", "haMasterAddress",
		"brokerRole", "flushDiskType", "cleanFileForciblyEnable", "transientStorePoolEnable",
		"dispatchFromSenderThread", "wakeCommitWhenPutMessage", "wakeFlushWhenPutMessage",
		"enableCleanExpiredOffset", "totalReplicas", "inSyncReplicas", "minInSyncReplicas",
		"allAckInSyncStateSet", "enableAutoInSyncReplicas", "haFlowControlEnable",
	} {
		m[key] = true
	}
	return m
}()
