package sim

import (
	"skylark/broker/replicas"
	"skylark/ha"
	"skylark/store"
)

// replication stands for AutoSwitchHAService.
type replication struct {
	b      *brokerProc
	epochs *ha.Epochs
	fenced bool
}

func newReplication(b *brokerProc) (*replication, error) {
	epochs, err := ha.OpenEpochs(b.h.Disk(), epochPath, b.h.log)
	return &replication{b: b, epochs: epochs}, err
}

func (r *replication) setChanged(v *replicas.View) {}
func (r *replication) work()                       {}
func (r *replication) takeRole(id int64, role *replicas.Role) error {
	if role.Master {
		if err := r.b.log.Lead(); err != nil {
			return err
		}
		return r.epochs.Append(role.Epoch, r.b.log.MaxPhyOffset())
	}
	r.b.log.Follow()
	return nil
}
func (r *replication) accept(c *Conn)                              { c.Close() }
func (r *replication) confirmed() store.PhyOffset                  { return r.b.log.ConfirmOffset() }
func (r *replication) admit() bool                                 { return true }
func (r *replication) copied(end store.PhyOffset, done func(bool)) { done(true) }
