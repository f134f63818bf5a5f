//go:build interop

package handover

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
)

// readerGroup pulls the snapshots.
const readerGroup = "GID_reader"

type queueKey struct {
	topic string
	id    int32
}

func (k queueKey) String() string { return fmt.Sprintf("%s-%d", k.topic, k.id) }

// storedQueue is everything that can be pulled from one queue.
type storedQueue struct {
	min, max codec.QueueOffset
	raw      [][]byte // record i has the queue offset min+i
	records  []codec.Record
}

// snapshot is everything a broker serves.
type snapshot map[queueKey]*storedQueue

// queuesOnDisk are the queues that have a directory.
func (d *directory) queuesOnDisk(t *testing.T) (keys []queueKey) {
	topics, err := os.ReadDir(d.store("consumequeue"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	for _, topic := range topics {
		queues, err := os.ReadDir(d.store("consumequeue", topic.Name()))
		require.NoError(t, err)
		for _, q := range queues {
			id, err := strconv.Atoi(q.Name())
			require.NoError(t, err, "consumequeue/%s/%s", topic.Name(), q.Name())
			keys = append(keys, queueKey{topic.Name(), int32(id)})
		}
	}
	return keys
}

// snapshot pulls every queue that is on disk, and those of an earlier snapshot. The offsets of each must be without gaps.
func (l *life) snapshot(t *testing.T, earlier snapshot) snapshot {
	t.Helper()
	keys := l.dir.queuesOnDisk(t)
	for k := range earlier {
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	s := snapshot{}
	for _, k := range keys {
		if l.kind == java49 && halfTopics[k.topic] {
			s[k] = earlier[k]
			continue
		}
		s[k] = l.readQueue(t, k)
	}
	return s
}

// halfTopics are not in the topic table of 4.9, which therefore does not serve them. Their files are compared.
var halfTopics = map[string]bool{codec.HalfTopic: true, codec.OpHalfTopic: true}

func (l *life) readQueue(t *testing.T, k queueKey) *storedQueue {
	t.Helper()
	q := &storedQueue{}
	var err error
	q.min, err = l.client.MinOffset(l.ctx, l.addr, k.topic, k.id)
	require.NoError(t, err, "%s: least offset of %s", l, k)
	q.max, err = l.client.MaxOffset(l.ctx, l.addr, k.topic, k.id)
	require.NoError(t, err, "%s: end of %s", l, k)
	for at := q.min; at < q.max; {
		r, err := l.client.Pull(l.ctx, l.addr, client.PullRequest{Group: readerGroup, Topic: k.topic, QueueID: k.id,
			QueueOffset: at})
		require.NoError(t, err, "%s: pull %s at %d", l, k, at)
		require.Equal(t, codec.RespSuccess, r.Code, "%s: pull %s at %d of [%d,%d)", l, k, at, q.min, q.max)
		require.NoError(t, client.EachRecord(r.Body, func(rec *codec.Record) error {
			require.Equal(t, at, rec.QueueOffset, "%s: a gap or a double in %s", l, k)
			require.Equal(t, k.topic, string(rec.Topic), "%s: %s at %d", l, k, at)
			require.Equal(t, k.id, rec.QueueID, "%s: %s at %d", l, k, at)
			q.records = append(q.records, *rec)
			at++
			return nil
		}))
		for b := r.Body; len(b) > 0; {
			size, _ := codec.RecordSize(b)
			q.raw = append(q.raw, b[:size])
			b = b[size:]
		}
		require.Equal(t, at, r.NextBeginOffset, "%s: next offset of a pull from %s", l, k)
	}
	q.max = max(q.max, q.min+codec.QueueOffset(len(q.raw))) // what came while we read
	return q
}

// at is the record of a queue offset, nil if there is none.
func (q *storedQueue) at(offset codec.QueueOffset) (*codec.Record, []byte) {
	if q == nil || offset < q.min || offset >= q.max {
		return nil, nil
	}
	return &q.records[offset-q.min], q.raw[offset-q.min]
}

// find is the records with a unique key.
func (q *storedQueue) find(uniq string) (found []*codec.Record) {
	if q == nil {
		return nil
	}
	for i := range q.records {
		if p, _ := q.records[i].Property(codec.PropUniqKey); string(p) == uniq {
			found = append(found, &q.records[i])
		}
	}
	return found
}

// count is the number of records.
func (s snapshot) count() (n int) {
	for _, q := range s {
		if q != nil {
			n += len(q.raw)
		}
	}
	return n
}

// requireKept checks that everything of before is in after, at the same place and byte for byte. after may have more.
func (after snapshot) requireKept(t *testing.T, before snapshot, what string) {
	t.Helper()
	for k, was := range before {
		is := after[k]
		if was == nil {
			continue
		}
		require.NotNil(t, is, "%s: %s is gone", what, k)
		require.Equal(t, was.min, is.min, "%s: least offset of %s", what, k)
		require.GreaterOrEqual(t, is.max, was.max, "%s: end of %s", what, k)
		for i := range was.raw {
			if !bytes.Equal(was.raw[i], is.raw[i]) {
				require.Equal(t, was.records[i], is.records[i], "%s: %s at %d", what, k, was.min+codec.QueueOffset(i))
			}
		}
	}
}
