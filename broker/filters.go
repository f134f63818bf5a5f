package broker

import (
	"skylark/broker/consumerfilter"
	"skylark/store"
)

// makeFilters makes the table of SQL92 subscriptions. As in Java the length of the bit maps follows from its numbers,
// whatever bitMapLengthConsumeQueueExt says.
func (b *Broker) makeFilters(configDir string) (err error) {
	o, bc, sc := &b.o, b.cfg.broker, b.cfg.store
	unclean, err := store.Aborted(o.FS, sc.StorePathRootDir)
	if err != nil {
		return err
	}
	b.filters, err = consumerfilter.New(consumerfilter.Options{FS: o.FS, ConfigDir: configDir, Clock: b.clock,
		Log: b.log, ErrorPercent: bc.MaxErrorRateOfBloomFilter, Expected: bc.ExpectConsumerNumUseFilter,
		KeepDead: millis(bc.FilterDataCleanTimeSpan), Stored: b.lastStoreTime, Unclean: unclean})
	if err == nil {
		sc.BitMapLengthConsumeQueueExt = b.filters.Bloom().BitCount()
	}
	return err
}

// lastStoreTime is the store time (ms) of the last message whose filter bits may be computed.
func (b *Broker) lastStoreTime() int64 {
	if b.store == nil {
		return 0
	}
	return b.store.LastStoreTime()
}

// filterOptions are those of ConsumeQueueExt.
func (b *Broker) filterOptions(o *store.Options) {
	c := b.cfg.store
	o.EnableConsumeQueueExt, o.MappedFileSizeConsumeQueueExt = c.EnableConsumeQueueExt, int64(c.MappedFileSizeConsumeQueueExt)
	o.BitMapLengthConsumeQueueExt = c.BitMapLengthConsumeQueueExt
	if c.EnableConsumeQueueExt && b.cfg.broker.EnableCalcFilterBitMap {
		o.CalcFilterBitMap = b.filters.BitMaps()
	}
}
