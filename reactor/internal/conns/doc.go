// Package conns is what all engines do alike with their connections: number them, count them against the
// limit, find those that are idle or do not read, close all, wait until all are gone, and log why one was
// closed. Conn is the part of a connection that is the same in all of them.
//
// # Time without a clock
//
// The data path reads no clock. A table has a tick counter that its sweeper advances, at an eighth of the
// shortest timeout but at most 100 and at least one time a second; traffic stores the current tick in its
// connection. Timeouts are therefore late by up to a tick or two, never early, and an idle engine wakes up
// once a second.
package conns
