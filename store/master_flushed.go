package store

// SetMasterFlushedOffset keeps, in the checkpoint, what a slave was told of its master's flushed log (Java
// MessageStore.setMasterFlushedOffset). Nothing of ours depends on it; Java's slaves ask for it once while it is 0.
func (s *MessageStore) SetMasterFlushedOffset(p PhyOffset) {
	s.checkpoint.masterFlushedOffset.Store(int64(p))
	s.checkpoint.signal.raise()
}

// MasterFlushedOffset is what SetMasterFlushedOffset was told last, also before a restart; 0 = nothing.
func (s *MessageStore) MasterFlushedOffset() PhyOffset {
	return PhyOffset(s.checkpoint.masterFlushedOffset.Load())
}
