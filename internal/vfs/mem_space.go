package vfs

import (
	"math/bits"
	"sync"
	"syscall"
)

// pageSet is a set of page numbers.
type pageSet struct {
	words []uint64
	count int64
}

func (s *pageSet) has(page int64) bool {
	word := page / 64
	return word < int64(len(s.words)) && s.words[word]&(1<<(page%64)) != 0
}

func (s *pageSet) add(page int64) {
	if s.has(page) {
		return
	}
	for int64(len(s.words)) <= page/64 {
		s.words = append(s.words, 0)
	}
	s.words[page/64] |= 1 << (page % 64)
	s.count++
}

// removeFrom takes out all pages from number first on and returns how many there were.
func (s *pageSet) removeFrom(first int64) int64 {
	before := s.count
	if word := first / 64; word < int64(len(s.words)) {
		s.words[word] &= 1<<(first%64) - 1
		s.words = s.words[:word+1]
	}
	s.count = 0
	for _, word := range s.words {
		s.count += int64(bits.OnesCount64(word))
	}
	return before - s.count
}

// firstMissing returns the first page below end that is not in the set, or -1.
func (s *pageSet) firstMissing(end int64) int64 {
	for page := int64(0); page < end; page++ {
		if !s.has(page) {
			return page
		}
	}
	return -1
}

// unlimitedBytes is the partition that Usage shows when there is no limit.
const unlimitedBytes = 1 << 40

// memSpace counts what the files of a MemFS occupy.
type memSpace struct {
	mu    sync.Mutex
	limit int64
	used  int64
}

func (s *memSpace) take(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && s.limit > 0 && s.used+n > s.limit {
		return syscall.ENOSPC
	}
	s.used += n
	return nil
}

func (s *memSpace) give(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
}

// full tells whether not even one page is left.
func (s *memSpace) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit > 0 && s.used+PageSize > s.limit
}

func (s *memSpace) setLimit(limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = limit
}

func (s *memSpace) limitBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit
}

func (s *memSpace) usedBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

func (s *memSpace) usage() DiskUsage {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := s.limit
	if total <= 0 {
		total = unlimitedBytes
	}
	free := uint64(max(total-s.used, 0))
	return NewDiskUsage(uint64(total), free, free)
}
