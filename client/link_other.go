//go:build !linux

package client

import (
	"net"
	"time"
)

// NewDialer makes a plain dialer: the system has no limit to set.
func NewDialer(time.Duration) *net.Dialer { return &net.Dialer{} }
