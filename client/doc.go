// Package client is a small remoting client: connections that carry many calls at a time, a cache of
// connections by address, and the few requests that broker, bench, admin and tests need. It is no producer or
// consumer of its own: applications use the RocketMQ clients they have.
//
// A Conn has one goroutine that reads. Writes are combined: whoever finds nobody writing writes what
// everybody has appended meanwhile, so concurrent calls share system calls and none waits for a hand-over.
//
// The requests lie in files by family: route.go (name servers, queues of a topic), send.go, pull.go (with
// offsets and heartbeats), admin.go. For load there are SendTemplate, PullFrames and PeekAnswer: frames made
// and answers read without allocation, for connections that the caller reads and writes itself.
package client
