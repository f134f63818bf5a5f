package config

// NettyServerConfig is Java's org.apache.rocketmq.remoting.netty.NettyServerConfig: the listening side.
// Thread counts of netty have no meaning here; they are read so that files load. See OwnConfig for what
// has.
type NettyServerConfig struct {
	// BindAddress: address to listen on.
	BindAddress string `prop:"bindAddress" def:"0.0.0.0"`
	// ListenPort: port to listen on; broker 10911, name server 9876. The broker's fast port is this minus 2.
	ListenPort int `prop:"listenPort" is:"..65535"`
	// ServerWorkerThreads: Java: netty workers behind the selectors.
	ServerWorkerThreads int `prop:"serverWorkerThreads" def:"8" is:"1.."`
	// ServerCallbackExecutorThreads: Java: workers for callbacks; 0 means 4.
	ServerCallbackExecutorThreads int `prop:"serverCallbackExecutorThreads" is:"..1024"`
	// ServerSelectorThreads: Java: IO threads. Event loops are set by reactorLoops.
	ServerSelectorThreads int `prop:"serverSelectorThreads" def:"3" is:"1.."`
	// ServerOnewaySemaphoreValue: one-way requests to clients under way.
	ServerOnewaySemaphoreValue int `prop:"serverOnewaySemaphoreValue" def:"256" is:"1.."`
	// ServerAsyncSemaphoreValue: asynchronous requests to clients under way.
	ServerAsyncSemaphoreValue int `prop:"serverAsyncSemaphoreValue" def:"64" is:"1.."`
	// ServerChannelMaxIdleTimeSeconds: seconds without traffic until a connection is closed.
	ServerChannelMaxIdleTimeSeconds int `prop:"serverChannelMaxIdleTimeSeconds" def:"120" is:"1.."`
	// ServerSocketSndBufSize: bytes of the kernel's send buffer; 0 leaves it to the kernel.
	ServerSocketSndBufSize int `prop:"serverSocketSndBufSize"`
	// ServerSocketRcvBufSize: bytes of the kernel's receive buffer; 0 leaves it to the kernel.
	ServerSocketRcvBufSize int `prop:"serverSocketRcvBufSize"`
	// WriteBufferHighWaterMark: bytes waiting for a connection from which it counts as not writable; 0 =
	// netty's 64 KiB.
	WriteBufferHighWaterMark int `prop:"writeBufferHighWaterMark"`
	// WriteBufferLowWaterMark: bytes from which it counts as writable again; 0 = netty's 32 KiB.
	WriteBufferLowWaterMark int `prop:"writeBufferLowWaterMark"`
	// ServerSocketBacklog: connections waiting to be accepted.
	ServerSocketBacklog int `prop:"serverSocketBacklog" def:"1024" is:"1.."`
	// ServerNettyWorkerGroupEnable: Java: requests leave the selector threads.
	ServerNettyWorkerGroupEnable bool `prop:"serverNettyWorkerGroupEnable" def:"true"`
	// ServerPooledByteBufAllocatorEnable: Java: pooled buffers.
	ServerPooledByteBufAllocatorEnable bool `prop:"serverPooledByteBufAllocatorEnable" def:"true"`
	// EnableShutdownGracefully: tell clients to go away before the end (GO_AWAY).
	EnableShutdownGracefully bool `prop:"enableShutdownGracefully"`
	// ShutdownWaitTimeSeconds: seconds clients get for that.
	ShutdownWaitTimeSeconds int `prop:"shutdownWaitTimeSeconds" def:"30"`
	// UseEpollNativeSelector: Java: native epoll. Here see reactor.
	UseEpollNativeSelector bool `prop:"useEpollNativeSelector"`
}

// NettyClientConfig is Java's org.apache.rocketmq.remoting.netty.NettyClientConfig: connections the server
// opens itself, to name servers, controllers and other brokers.
type NettyClientConfig struct {
	// ClientWorkerThreads: Java: netty workers of the outgoing side.
	ClientWorkerThreads int `prop:"clientWorkerThreads" def:"4" is:"1.."`
	// ClientCallbackExecutorThreads: Java: workers for callbacks; cpu.
	ClientCallbackExecutorThreads int `prop:"clientCallbackExecutorThreads" is:"1.."`
	// ClientOnewaySemaphoreValue: one-way requests under way.
	ClientOnewaySemaphoreValue int `prop:"clientOnewaySemaphoreValue" def:"65535" is:"1.."`
	// ClientAsyncSemaphoreValue: asynchronous requests under way.
	ClientAsyncSemaphoreValue int `prop:"clientAsyncSemaphoreValue" def:"65535" is:"1.."`
	// ConnectTimeoutMillis: milliseconds a connection may take to open.
	ConnectTimeoutMillis int `prop:"connectTimeoutMillis" def:"3000" is:"1.."`
	// ChannelNotActiveInterval: milliseconds; unused in 5.x.
	ChannelNotActiveInterval int64 `prop:"channelNotActiveInterval" def:"60000" is:"1.."`
	// IsScanAvailableNameSrv: keep testing which name servers answer.
	IsScanAvailableNameSrv bool `prop:"isScanAvailableNameSrv" def:"true" old:"scanAvailableNameSrv"`
	// ClientChannelMaxIdleTimeSeconds: seconds without traffic until an outgoing connection is closed.
	ClientChannelMaxIdleTimeSeconds int `prop:"clientChannelMaxIdleTimeSeconds" def:"120" is:"1.."`
	// ClientSocketSndBufSize: bytes of the kernel's send buffer; 0 leaves it to the kernel.
	ClientSocketSndBufSize int `prop:"clientSocketSndBufSize"`
	// ClientSocketRcvBufSize: bytes of the kernel's receive buffer; 0 leaves it to the kernel.
	ClientSocketRcvBufSize int `prop:"clientSocketRcvBufSize"`
	// ClientPooledByteBufAllocatorEnable: Java: pooled buffers.
	ClientPooledByteBufAllocatorEnable bool `prop:"clientPooledByteBufAllocatorEnable"`
	// ClientCloseSocketIfTimeout: close an outgoing connection when a request on it times out.
	ClientCloseSocketIfTimeout bool `prop:"clientCloseSocketIfTimeout" def:"true"`
	// UseTLS: speak TLS to name servers and other brokers.
	UseTLS bool `prop:"useTLS"`
	// SocksProxyConfig: SOCKS proxies as JSON by address range.
	SocksProxyConfig string `prop:"socksProxyConfig" def:"{}" is:"secret"`
	// WriteBufferHighWaterMark: bytes waiting for a connection from which it counts as not writable; 0 =
	// default.
	WriteBufferHighWaterMark int `prop:"writeBufferHighWaterMark"`
	// WriteBufferLowWaterMark: bytes from which it counts as writable again; 0 = default.
	WriteBufferLowWaterMark int `prop:"writeBufferLowWaterMark"`
	// DisableCallbackExecutor: Java: run callbacks on the IO threads.
	DisableCallbackExecutor bool `prop:"disableCallbackExecutor"`
	// DisableNettyWorkerGroup: Java: no netty workers.
	DisableNettyWorkerGroup bool `prop:"disableNettyWorkerGroup"`
	// MaxReconnectIntervalTimeSeconds: seconds between tries to reconnect, at most.
	MaxReconnectIntervalTimeSeconds int64 `prop:"maxReconnectIntervalTimeSeconds" def:"60" is:"1.."`
	// EnableReconnectForGoAway: reconnect when the other side says GO_AWAY.
	EnableReconnectForGoAway bool `prop:"enableReconnectForGoAway" def:"true"`
}
