package config

import (
	"os"
	"path/filepath"
	"runtime"
)

// Environment variables that Java reads too.
const (
	EnvNamesrvAddr  = "NAMESRV_ADDR"  // default of namesrvAddr
	EnvRocketmqHome = "ROCKETMQ_HOME" // default of rocketmqHome
)

// defaultDelayLevels are levels 1 to 18.
const defaultDelayLevels = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

// home is Java's user.home; "." if the system does not tell one.
func home(elem ...string) string {
	dir, err := os.UserHomeDir()
	if err != nil {
		dir = "."
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// DefaultBrokerConfig is what new BrokerConfig() holds in Java 5.3.3: worker counts follow the CPUs this
// process may use, brokerName is the host name, and the environment gives rocketmqHome and namesrvAddr.
// brokerIP1 and brokerIP2 stay empty, where Java looks for the first local IPv4 at once.
func DefaultBrokerConfig() *BrokerConfig {
	c := new(BrokerConfig)
	fill(c)
	cpu := runtime.GOMAXPROCS(0)
	c.BrokerName = "DEFAULT_BROKER"
	if host, err := os.Hostname(); err == nil && host != "" {
		c.BrokerName = host
	}
	c.RocketmqHome = os.Getenv(EnvRocketmqHome)
	c.NamesrvAddr = os.Getenv(EnvNamesrvAddr)
	c.ConsumerManagerThreadPoolQueueCapacity = 1000000
	c.SendMessageThreadPoolNums = min(cpu, 4)
	c.PutMessageFutureThreadPoolNums = min(cpu, 4)
	c.PullMessageThreadPoolNums = 16 + 2*cpu
	c.LitePullMessageThreadPoolNums = 16 + 2*cpu
	c.ProcessReplyMessageThreadPoolNums = 16 + 2*cpu
	c.QueryMessageThreadPoolNums = 8 + cpu
	c.HeartbeatThreadPoolNums = min(32, cpu)
	c.EndTransactionThreadPoolNums = max(8+2*cpu, 4*c.SendMessageThreadPoolNums)
	return c
}

// DefaultMessageStoreConfig is what new MessageStoreConfig() holds in Java 5.3.3.
func DefaultMessageStoreConfig() *MessageStoreConfig {
	c := new(MessageStoreConfig)
	fill(c)
	c.StorePathRootDir = home("store")
	c.MessageDelayLevel = defaultDelayLevels
	c.ScheduleAsyncDeliverMaxResendNum2Blocked = 3
	c.LogicalDiskSpaceCleanForciblyThreshold = 0.8
	c.BottomMostCompressionTypeForConsumeQueueStore = "zstd"
	return c
}

// DefaultNettyServerConfig is what new NettyServerConfig() holds in Java 5.3.3; listenPort is 0, which
// the New…Set functions replace.
func DefaultNettyServerConfig() *NettyServerConfig {
	c := new(NettyServerConfig)
	fill(c)
	return c
}

// DefaultNettyClientConfig is what new NettyClientConfig() holds in Java 5.3.3.
func DefaultNettyClientConfig() *NettyClientConfig {
	c := new(NettyClientConfig)
	fill(c)
	c.ClientCallbackExecutorThreads = runtime.GOMAXPROCS(0)
	return c
}

// DefaultNamesrvConfig is what new NamesrvConfig() holds in Java 5.3.3.
func DefaultNamesrvConfig() *NamesrvConfig {
	c := new(NamesrvConfig)
	fill(c)
	c.RocketmqHome = os.Getenv(EnvRocketmqHome)
	c.KvConfigPath = home("namesrv", "kvConfig.json")
	c.ConfigStorePath = home("namesrv", "namesrv.properties")
	return c
}

// DefaultControllerConfig is what new ControllerConfig() and new JraftConfig() hold in Java 5.3.3.
func DefaultControllerConfig() *ControllerConfig {
	c := new(ControllerConfig)
	fill(c)
	c.RocketmqHome = os.Getenv(EnvRocketmqHome)
	c.ConfigStorePath = home("controller", "controller.properties")
	c.ControllerRequestThreadPoolQueueCapacity = 50000
	c.JRaftControllerRPCAddr = "localhost:9770,localhost:9771,localhost:9772"
	return c
}

// DefaultAuthConfig is what new AuthConfig() holds in Java 5.3.3: no authentication, no authorization.
func DefaultAuthConfig() *AuthConfig {
	c := new(AuthConfig)
	fill(c)
	return c
}

// DefaultOwnConfig holds the defaults of the keys that Java's classes do not have.
func DefaultOwnConfig() *OwnConfig {
	c := new(OwnConfig)
	fill(c)
	return c
}
