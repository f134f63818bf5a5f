// Package wal keeps what a controller may not forget: the entries of its Raft log, its vote, its snapshots. Everything
// goes through package vfs, so that tests cut the power and break the disk.
//
// # Directory
//
//	lock                              held while a process uses the directory
//	0000000000000001.wal              segments; the name is the sequence number of the first batch, hexadecimal
//	00000000000004d2-00000003.snap    snapshots; index and term of the last entry in it, hexadecimal
//
// # Segments
//
// A segment is a row of batches. A batch is what one call of [WAL.Append] made durable; it is written with one write and
// synced before the call returns, so at most the last batch can be torn. All numbers are big-endian.
//
//	offset  size  field
//	     0     4  magic 0x534B574C ("SKWL")
//	     4     4  length of the records
//	     8     8  sequence number: one more than that of the batch before, over all segments
//	    16     4  CRC-32C of bytes 4 to 15 and of the records
//	    20     n  records: type (1), length (4), content
//
//	type  content
//	   1  identity: JSON of [Identity]; first in every segment
//	   2  Raft's HardState, protobuf
//	   3  a Raft entry, protobuf; it replaces what stands at its index and behind
//	   4  reset: index (8), term (8). A snapshot from the leader took the place of the log up to there
//	   5  index (8) of the last entry before this segment; in the first batch of every segment
//
// # Recovery
//
// A batch that is cut off or whose CRC is wrong ends the log if nothing whole follows in it and it is in the last
// segment: power went while it was written, nobody has been told about it, and it is cut off. Anywhere else it is
// damage: [Open] fails with [ErrCorrupt], file and offset. Going on without entries or votes that others count on could
// lose what was confirmed.
//
// # Snapshots
//
// magic 0x534B534E ("SKSN"), version (4, now 1), CRC-32C (4) and length (4) of the content, content: Raft's Snapshot,
// protobuf. A snapshot is written under a temporary name and renamed. The last two are kept, and the segments from the
// older one on, so that a snapshot with a bad CRC is no loss.
//
// A write or sync that fails is final: what the disk has afterwards is unknown (a second fsync may succeed without the
// data), so every later call gets the same error and the controller has to be started anew.
package wal
