// Package freeport finds ports of the loopback interface for servers that are processes of their own.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

const (
	// lowest and count are the ports that are given: below those from which systems take ports for connections (32768 on
	// Linux), where somebody else may have one a moment later.
	lowest = 20000
	count  = 12000

	tries = 100
)

// ErrNone is that of a machine without free ports.
var ErrNone = errors.New("freeport: no free port")

// Find gives a port that is free, with those beside it: Find(-2, 1) is for a broker, which listens two ports below for
// clients of old and one above for replication.
func Find(beside ...int) (int, error) {
	for range tries {
		port := lowest + rand.IntN(count)
		if isFree(port) && !slices.ContainsFunc(beside, func(d int) bool { return !isFree(port + d) }) {
			return port, nil
		}
	}
	return 0, ErrNone
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}
