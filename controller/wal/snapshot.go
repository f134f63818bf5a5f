package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"strconv"
	"strings"

	"go.etcd.io/raft/v3/raftpb"

	"skylark/internal/vfs"
)

const (
	snapMagic     = 0x534B534E
	snapVersion   = 1
	snapHeader    = 16
	keptSnapshots = 2
)

// damagedSuffix is what the name of a snapshot gets that cannot be read.
const damagedSuffix = ".damaged"

// snapFile is a snapshot on the disk.
type snapFile struct {
	name  string
	index uint64
}

func snapName(m raftpb.SnapshotMetadata) string {
	return fmt.Sprintf("%016x-%08x.snap", m.Index, m.Term)
}

// snapIndex reads the index in a snapshot's name.
func snapIndex(name string) (uint64, bool) {
	stem, ok := strings.CutSuffix(name, ".snap")
	if !ok {
		return 0, false
	}
	hex, _, ok := strings.Cut(stem, "-")
	index, err := strconv.ParseUint(hex, 16, 64)
	return index, ok && err == nil
}

func (w *WAL) writeSnapshot(snap raftpb.Snapshot) error {
	content, err := snap.Marshal()
	if err != nil {
		panic("BUG: wal: " + err.Error()) // of a value that raft made
	}
	data := make([]byte, snapHeader, snapHeader+len(content))
	binary.BigEndian.PutUint32(data, snapMagic)
	binary.BigEndian.PutUint32(data[4:], snapVersion)
	binary.BigEndian.PutUint32(data[8:], crc32.Checksum(content, castagnoli))
	binary.BigEndian.PutUint32(data[12:], uint32(len(content)))
	f := snapFile{snapName(snap.Metadata), snap.Metadata.Index}
	if err := vfs.WriteFileAtomic(w.o.FS, path.Join(w.o.Dir, f.name), append(data, content...), false); err != nil {
		return err
	}
	if n := len(w.snapshots); n == 0 || w.snapshots[n-1].index < f.index {
		w.snapshots = append(w.snapshots, f)
	}
	return nil
}

func (w *WAL) readSnapshot(name string) (snap raftpb.Snapshot, err error) {
	data, err := vfs.ReadFile(w.o.FS, path.Join(w.o.Dir, name))
	if err != nil {
		return snap, err
	}
	switch {
	case len(data) < snapHeader || binary.BigEndian.Uint32(data) != snapMagic:
		return snap, errors.New("not a snapshot")
	case binary.BigEndian.Uint32(data[4:]) != snapVersion:
		return snap, fmt.Errorf("version %d, this program reads %d", binary.BigEndian.Uint32(data[4:]), snapVersion)
	case int64(binary.BigEndian.Uint32(data[12:])) != int64(len(data)-snapHeader):
		return snap, errors.New("cut off")
	case crc32.Checksum(data[snapHeader:], castagnoli) != binary.BigEndian.Uint32(data[8:]):
		return snap, errors.New("the CRC is wrong")
	}
	return snap, snap.Unmarshal(data[snapHeader:])
}
