package javaoracle

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// StartProxy starts the proxy for the 5.x gRPC clients in cluster mode, before the brokers that the name server knows, and
// waits until it listens. It also takes remotingPort. It makes its heartbeat topic at its start: the brokers have to be
// registered.
func (s Server) StartProxy(ctx context.Context, cluster string, grpcPort, remotingPort int) (*Process, error) {
	version := s.Version
	if version == "" {
		version = Version53
	}
	lib, err := ProxyJars(ctx, s.CacheDir, version)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"conf", "home"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	conf, err := json.Marshal(map[string]any{"rocketMQClusterName": cluster, "proxyMode": "cluster",
		"namesrvAddr": s.Namesrv, "grpcServerPort": grpcPort, "remotingListenPort": remotingPort,
		"localServeAddr": s.bind(), "grpcThreadPoolNums": 4, "metricCollectorMode": "off"})
	if err != nil {
		return nil, err
	}
	confFile := filepath.Join(s.Dir, "conf", "rmq-proxy.json")
	if err := os.WriteFile(confFile, conf, 0o644); err != nil {
		return nil, err
	}
	args := []string{"-Xms384m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=512m",
		"-Duser.home=" + filepath.Join(s.Dir, "home"), "-Drocketmq.home.dir=" + s.Dir,
		"-Dio.netty.tryReflectionSetAccessible=true"}
	args = append(append(args, moduleFlags...), "-cp", filepath.Join(s.Dir, "conf")+":"+lib+"/*",
		"org.apache.rocketmq.proxy.ProxyStartup", "-pc", confFile, "-pm", "cluster", "-n", s.Namesrv)
	p := &Process{name: "proxy", log: filepath.Join(s.Dir, "proxy.log"), done: make(chan struct{})}
	if err := p.run(s.Dir, args); err != nil {
		return nil, err
	}
	return p, p.waitPort(ctx, net.JoinHostPort(s.bind(), strconv.Itoa(grpcPort)))
}
