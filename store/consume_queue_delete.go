package store

import (
	"errors"
	"fmt"
	"path"
	"strconv"
)

// deleteTopic takes a topic away: its queues are gone for readers when it returns, its files too. A queue of the same
// name that is made meanwhile starts at 0. false: there was no such topic.
//
// The records of the topic stay in the log until they expire. Those that are not dispatched yet, and all of them should
// the dispatch be repeated after a crash, are told from the records of a new topic of the same name by where they lie.
func (t *consumeQueueTable) deleteTopic(topic string) (bool, error) {
	trash, err := t.detachTopic(topic)
	if err != nil || trash == "" {
		return false, err
	}
	// From here on the topic may live again. The mark must be durable before the files go, or a crash could leave a
	// half-deleted topic that recovery completes again.
	return true, errors.Join(t.saveMarks(), syncDirs(t.fs, t.dir, queuesDir(t.o, BatchCQ),
		path.Join(t.o.RootDir, extDirName)),
		t.fs.RemoveAll(trash))
}

// detachTopic is the part under writeMu: it moves the files out of the way in one rename.
func (t *consumeQueueTable) detachTopic(topic string) (trash string, err error) {
	t.writeMu.Lock()
	defer t.writeMu.Unlock()
	tq := t.topic(topic)
	if tq == nil {
		return "", nil
	}
	if trash, err = t.trashName(); err != nil {
		return "", err
	}
	t.stopPuts(func() {
		t.createMu.Lock()
		defer t.createMu.Unlock()
		t.setTopic(tq.topic, nil)
		t.deletedTopics[tq.topic] = t.cl.wroteEnd()
	})
	for _, cq := range tq.list() {
		cq.close()
	}
	if err := t.moveAway(trash, path.Join(queuesDir(t.o, tq.kind), topic), extDir(t.o.RootDir, topic)); err != nil {
		return "", fmt.Errorf("store: delete topic %s: %w", topic, err)
	}
	return trash, nil
}

// trashName is a fresh name in the directory for deleted queues. The caller holds writeMu.
func (t *consumeQueueTable) trashName() (string, error) {
	dir := path.Join(t.o.RootDir, deletedQueuesDirName)
	if err := t.fs.MkdirAll(dir); err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	t.trashSeq++
	return path.Join(dir, strconv.Itoa(t.trashSeq)), nil
}

// moveAway makes trash and moves directories, those that exist, below it.
func (t *consumeQueueTable) moveAway(trash string, dirs ...string) error {
	if err := t.fs.MkdirAll(trash); err != nil {
		return err
	}
	for i, dir := range dirs {
		if err := ignoreNotExist(t.fs.Rename(dir, path.Join(trash, strconv.Itoa(i)))); err != nil {
			return err
		}
	}
	return nil
}

// cleanExpired removes the queues, except those of topics to keep, whose last record has expired (Java cleanExpired,
// request 306): their numbering starts at 0 again. It returns how many.
func (t *consumeQueueTable) cleanExpired(keep func(topic string) bool) (int, error) {
	minPhy := int64(t.cl.minOffset())
	removed := 0
	var errs []error
	for _, cq := range t.all() {
		if keep(cq.topic) {
			continue
		}
		trash, err := t.detachExpired(cq, minPhy)
		if err == nil && trash != "" {
			removed++
			err = t.fs.RemoveAll(trash)
		}
		errs = append(errs, err)
	}
	if removed > 0 {
		errs = append(errs, t.saveMarks())
	}
	return removed, errors.Join(errs...)
}

// detachExpired takes a queue out if it has had records, none of them is left, and none is on its way.
func (t *consumeQueueTable) detachExpired(cq *consumeQueue, minPhy int64) (trash string, err error) {
	expired := func() bool {
		maxPhy := cq.maxPhy.Load()
		_, end := cq.bounds()
		return maxPhy >= 0 && maxPhy <= minPhy && cq.next.Load() == end
	}
	if !expired() {
		return "", nil
	}
	t.writeMu.Lock()
	defer t.writeMu.Unlock()
	if trash, err = t.trashName(); err != nil {
		return "", err
	}
	detached := false
	t.stopPuts(func() {
		t.createMu.Lock()
		defer t.createMu.Unlock()
		if tq := t.topic(cq.topic); tq != nil && tq.find(cq.queueID) == cq && expired() {
			tq.add(cq.queueID, nil)
			if len(tq.list()) == 0 {
				t.setTopic(cq.topic, nil)
			}
			detached = true
		}
	})
	if !detached {
		return "", nil
	}
	cq.close()
	units := path.Join(extDir(t.o.RootDir, cq.topic), strconv.Itoa(int(cq.queueID)))
	if err := t.moveAway(trash, cq.mfq.dir, units); err != nil {
		return "", fmt.Errorf("store: delete queue %s-%d: %w", cq.topic, cq.queueID, err)
	}
	return trash, nil
}
