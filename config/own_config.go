package config

// OwnConfig holds the keys that Java's configuration classes do not have: those of this server, and those
// that Java takes as system properties (-D…) or straight from the file. They stand in the same files as the
// rest.
type OwnConfig struct {
	// What is registered, when it is not what is listened on (NAT, containers).

	// AdvertiseAddr: "host:port" registered with name servers instead of brokerIP1:listenPort.
	AdvertiseAddr string `prop:"advertiseAddr"`
	// HaAdvertiseAddr: "host:port" registered for slaves instead of brokerIP2:haListenPort.
	HaAdvertiseAddr string `prop:"haAdvertiseAddr"`

	// Replication.

	// HaAckRule: what SYNC_MASTER waits for: java4 = any one slave; java5 = inSyncReplicas replicas, of which the master is
	// one, so that 1, the default of inSyncReplicas, waits for nobody; auto = java5 if inSyncReplicas is above 1 or with
	// enableSlaveActingMaster or enableControllerMode, else java4. majority is for those who come from DLedger: more than half
	// of totalReplicas (at least 3), and all that the controllers may elect; it wants enableControllerMode.
	HaAckRule string `prop:"haAckRule" def:"auto" one:"auto|java4|java5|majority" is:"live"`

	// ControllerLeaseMillis: how long a master in controller mode takes messages without an answer of the controllers; then it
	// refuses them until it has one. 0 = for ever, as Java's.
	ControllerLeaseMillis int64 `prop:"controllerLeaseMillis" is:"0.."`

	// HandoverForwardMillis: how long a broker that has given its role to another one (skylark admin handover) passes on what
	// clients still send to its address; they look for the new one every 30 s.
	HandoverForwardMillis int64 `prop:"handoverForwardMillis" def:"120000" is:"0..3600000 live"`

	// Event loops.

	// Reactor: engine of the event loops; auto takes the first that works here.
	Reactor string `prop:"reactor" def:"auto" one:"auto|io_uring|epoll|std"`
	// ReactorLoops: event loops; 0 means one per CPU.
	ReactorLoops int `prop:"reactorLoops" is:"..1024"`
	// MaxConnections: connections accepted at a time; further ones are closed at once.
	MaxConnections int `prop:"maxConnections" def:"65536" is:"1.. live"`
	// SendOnLoop: append messages on the event loop; a send that would have to wait goes to the send pool.
	SendOnLoop bool `prop:"sendOnLoop" def:"true"`
	// PullOnLoop: answer pulls that find their messages in memory on the event loop.
	PullOnLoop bool `prop:"pullOnLoop" def:"true"`
	// OutboundHighWatermark: bytes waiting for a connection from which it gets no more answers.
	OutboundHighWatermark int `prop:"outboundHighWatermark" def:"8388608" is:"1024.. live"`
	// OutboundLowWatermark: bytes from which it gets answers again; must be below outboundHighWatermark.
	OutboundLowWatermark int `prop:"outboundLowWatermark" def:"2097152" is:"live"`
	// SlowRequestMillis: a request that takes as long, from arrival to the written answer, is logged with the time it spent
	// in each stage; 0 switches the trace off.
	SlowRequestMillis int64 `prop:"slowRequestMillis" def:"500" is:"0.. live"`

	// Duplicate suppression: a message that is sent again under its unique id is answered with the first result.

	// DuplicateSuppressionEnable: recognise them.
	DuplicateSuppressionEnable bool `prop:"duplicateSuppressionEnable"`
	// DuplicateSuppressionTopics: by comma, those that have a window; empty is all but retries, dead letters and the system's.
	DuplicateSuppressionTopics string `prop:"duplicateSuppressionTopics"`
	// DuplicateWindowCount: messages that a topic's window remembers at most.
	DuplicateWindowCount int `prop:"duplicateWindowCount" def:"100000" is:"1..16777216"`
	// DuplicateWindowMillis: milliseconds that a message is remembered at most.
	DuplicateWindowMillis int64 `prop:"duplicateWindowMillis" def:"60000" is:"1..86400000"`
	// DuplicateWindowMaxBytes: memory of all windows together, 80 bytes a message.
	DuplicateWindowMaxBytes int64 `prop:"duplicateWindowMaxBytes" def:"67108864" is:"4096.."`

	// FrameMaxLength: bytes of one frame; longer ones close the connection.
	FrameMaxLength int `prop:"com.rocketmq.remoting.frameMaxLength" def:"16777216" is:"1024..1073741824"`

	// The address server (fetchNamesrvAddrByAddressServer).

	// AddressServerDomain: host of the address server.
	AddressServerDomain string `prop:"rmqAddressServerDomain" def:"jmenv.tbsite.net"`
	// AddressServerSubGroup: path below /rocketmq/ there.
	AddressServerSubGroup string `prop:"rmqAddressServerSubGroup" def:"nsaddr"`
	// LockMaxLiveTime: milliseconds a consumer's queue lock lives without renewal.
	LockMaxLiveTime int64 `prop:"rocketmq.broker.rebalance.lockMaxLiveTime" def:"60000" is:"1.. live"`
	// QueueLockReleaseOnClose: free a consumer's queue locks when its connection ends. Without it they last until they
	// expire, as in Java: a client that lives on and has only lost its connection then keeps its queues for itself.
	QueueLockReleaseOnClose bool `prop:"queueLockReleaseOnClose" def:"true"`

	// TLS, system properties in Java.

	// TlsEnable: speak TLS to name servers and other brokers, as useTLS.
	TlsEnable bool `prop:"tls.enable" is:"fixed"`
	// TlsServerMode: refuse TLS, take both, or take nothing else.
	TlsServerMode string `prop:"tls.server.mode" def:"permissive" one:"disabled|permissive|enforcing" is:"fixed"`
	// TlsTestModeEnable: make a certificate at start and trust everybody, ignoring the files below.
	TlsTestModeEnable bool `prop:"tls.test.mode.enable" def:"true" is:"fixed"`
	// TlsServerKeyPath: PEM file of the private key.
	TlsServerKeyPath string `prop:"tls.server.keyPath" is:"fixed"`
	// TlsServerKeyPassword: password of that key.
	TlsServerKeyPassword string `prop:"tls.server.keyPassword" is:"fixed secret"`
	// TlsServerCertPath: PEM file of the certificate chain.
	TlsServerCertPath string `prop:"tls.server.certPath" is:"fixed"`
	// TlsClientAuth: whether clients must show a certificate.
	TlsClientAuth string `prop:"tls.server.need.client.auth" def:"none" one:"none|optional|require" is:"fixed"`
	// TlsServerAuthClient: check client certificates against tls.server.trustCertPath.
	TlsServerAuthClient bool `prop:"tls.server.authClient" is:"fixed"`
	// TlsServerTrustCertPath: PEM file of authorities for clients.
	TlsServerTrustCertPath string `prop:"tls.server.trustCertPath" is:"fixed"`
	// TlsClientKeyPath: PEM file of the private key of outgoing connections.
	TlsClientKeyPath string `prop:"tls.client.keyPath" is:"fixed"`
	// TlsClientKeyPassword: password of that key.
	TlsClientKeyPassword string `prop:"tls.client.keyPassword" is:"fixed secret"`
	// TlsClientCertPath: PEM file of the certificate chain of outgoing connections.
	TlsClientCertPath string `prop:"tls.client.certPath" is:"fixed"`
	// TlsClientAuthServer: check certificates of servers against tls.client.trustCertPath.
	TlsClientAuthServer bool `prop:"tls.client.authServer" is:"fixed"`
	// TlsClientTrustCertPath: PEM file of authorities for servers.
	TlsClientTrustCertPath string `prop:"tls.client.trustCertPath" is:"fixed"`
	// TlsConfigFile: file whose tls keys replace those here, mode and enable excepted, if it exists.
	TlsConfigFile string `prop:"tls.config.file" def:"/etc/rocketmq/tls.properties" is:"fixed"`
}
