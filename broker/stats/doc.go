// Package stats counts what goes through the broker under Java's names (BrokerStatsManager, StatsItem; spec
// features.md §18, request code 315).
//
// A counter is two atomic numbers, a sum and how many times it was added to. Every 10 s the manager notes
// them all: the last minute (7 notes), hour (7, every 10 min) and day (25, hourly). The notes of a counter
// are made when it first moves and dropped when it has stood still for a day. A view ends now, where Java's
// ends with the last note.
package stats
