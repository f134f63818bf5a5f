package replicas

import (
	"fmt"
	"time"

	"skylark/codec"
	"skylark/codec/body"
)

// Kind is what a request asks.
type Kind uint8

// The kinds.
const (
	KindMetadata    Kind = iota // CONTROLLER_GET_METADATA_INFO
	KindNextID                  // CONTROLLER_GET_NEXT_BROKER_ID
	KindApplyID                 // CONTROLLER_APPLY_BROKER_ID
	KindRegister                // CONTROLLER_REGISTER_BROKER
	KindElect                   // CONTROLLER_ELECT_MASTER
	KindReplicaInfo             // CONTROLLER_GET_REPLICA_INFO
	KindAlterSet                // CONTROLLER_ALTER_SYNC_STATE_SET
)

var kindCodes = [...]int{codec.ReqControllerGetMetadataInfo, codec.ReqControllerGetNextBrokerID,
	codec.ReqControllerApplyBrokerID, codec.ReqControllerRegisterBroker, codec.ReqControllerElectMaster,
	codec.ReqControllerGetReplicaInfo, codec.ReqControllerAlterSyncStateSet}

// Code is the request code.
func (k Kind) Code() int { return kindCodes[k] }

func (k Kind) String() string {
	return [...]string{"GET_METADATA", "GET_NEXT_BROKER_ID", "APPLY_BROKER_ID", "REGISTER_BROKER", "ELECT_MASTER",
		"GET_REPLICA_INFO", "ALTER_SYNC_STATE_SET"}[k]
}

// Request is one to a controller.
type Request struct {
	ID   uint64
	To   string // host:port
	Kind Kind

	Cluster, Name     string
	BrokerID          int64
	Address           string // KindRegister
	CheckCode         string // KindApplyID
	MasterEpoch       int32  // KindAlterSet, as what follows
	SyncStateSet      []int64
	SyncStateSetEpoch int32
}

// Answer is what a request brought.
type Answer struct {
	Kind   Kind
	Err    error // no answer; nothing else is set then
	Code   int
	Remark string

	Leader      string // KindMetadata
	IsLeader    bool
	BrokerID    int64 // KindNextID
	MasterEpoch int32 // KindAlterSet: as asked with
	View        View
}

// Command is the request on the wire.
func (r *Request) Command(now time.Time) (*codec.Command, error) {
	cmd := codec.NewRequest(r.Kind.Code())
	invoke := now.UnixMilli()
	switch r.Kind {
	case KindNextID:
		codec.EncodeHeader(cmd, &codec.GetNextBrokerIDRequestHeader{ClusterName: r.Cluster, BrokerName: r.Name})
	case KindApplyID:
		codec.EncodeHeader(cmd, &codec.ApplyBrokerIDRequestHeader{ClusterName: r.Cluster, BrokerName: r.Name,
			AppliedBrokerID: &r.BrokerID, RegisterCheckCode: r.CheckCode})
	case KindRegister:
		codec.EncodeHeader(cmd, &codec.RegisterBrokerToControllerRequestHeader{ClusterName: r.Cluster, BrokerName: r.Name,
			BrokerID: &r.BrokerID, BrokerAddress: r.Address, InvokeTime: invoke})
	case KindElect:
		codec.EncodeHeader(cmd, &codec.ElectMasterRequestHeader{ClusterName: r.Cluster, BrokerName: r.Name,
			BrokerID: r.BrokerID, InvokeTime: invoke})
	case KindReplicaInfo:
		codec.EncodeHeader(cmd, &codec.GetReplicaInfoRequestHeader{BrokerName: r.Name})
	case KindAlterSet:
		codec.EncodeHeader(cmd, &codec.AlterSyncStateSetRequestHeader{BrokerName: r.Name, MasterBrokerID: &r.BrokerID,
			MasterEpoch: &r.MasterEpoch, InvokeTime: invoke})
		var err error
		cmd.Body, err = body.Encode(&body.SyncStateSet{SyncStateSet: r.SyncStateSet, SyncStateSetEpoch: r.SyncStateSetEpoch})
		if err != nil {
			return nil, err
		}
	}
	return cmd, nil
}

// ReadAnswer reads the answer to r. One that cannot be read is one with Err.
func ReadAnswer(r *Request, cmd *codec.Command) *Answer {
	a := &Answer{Kind: r.Kind, Code: cmd.Code, Remark: cmd.Remark, MasterEpoch: r.MasterEpoch}
	if err := a.read(cmd); err != nil {
		return &Answer{Kind: r.Kind, Err: fmt.Errorf("replicas: answer to %v: %w", r.Kind, err)}
	}
	return a
}

func (a *Answer) read(cmd *codec.Command) error {
	switch {
	case a.Kind == KindElect && cmd.Code == codec.RespControllerMasterStillExist:
	case cmd.Code != codec.RespSuccess:
		return nil
	}
	switch a.Kind {
	case KindMetadata:
		var h codec.GetMetadataResponseHeader
		if err := codec.DecodeHeader(cmd, &h); err != nil {
			return err
		}
		a.Leader, a.IsLeader = h.ControllerLeaderAddress, h.IsLeader
	case KindNextID:
		var h codec.GetNextBrokerIDResponseHeader
		if err := codec.DecodeHeader(cmd, &h); err != nil {
			return err
		}
		a.BrokerID = value(h.NextBrokerID)
	case KindRegister:
		var h codec.RegisterBrokerToControllerResponseHeader
		if err := codec.DecodeHeader(cmd, &h); err != nil {
			return err
		}
		a.View = View{Master: value(h.MasterBrokerID), Address: h.MasterAddress, Epoch: value(h.MasterEpoch)}
		return a.View.readSet(cmd.Body, value(h.SyncStateSetEpoch))
	case KindElect:
		var h codec.ElectMasterResponseHeader
		if err := codec.DecodeHeader(cmd, &h); err != nil {
			return err
		}
		a.View = View{Master: value(h.MasterBrokerID), Address: h.MasterAddress, Epoch: value(h.MasterEpoch),
			SyncStateSetEpoch: value(h.SyncStateSetEpoch)}
		var b body.ElectMasterResponseBody
		if err := body.Decode(cmd.Body, &b); err != nil {
			return err
		}
		a.View.SyncStateSet = b.SyncStateSet
	case KindReplicaInfo:
		var h codec.GetReplicaInfoResponseHeader
		if err := codec.DecodeHeader(cmd, &h); err != nil {
			return err
		}
		a.View = View{Master: value(h.MasterBrokerID), Address: h.MasterAddress, Epoch: value(h.MasterEpoch)}
		return a.View.readSet(cmd.Body, 0)
	case KindAlterSet:
		return a.View.readSet(cmd.Body, 0)
	}
	return nil
}

// readSet reads a body with the SyncStateSet.
func (v *View) readSet(data []byte, epoch int32) error {
	if len(data) == 0 {
		v.SyncStateSetEpoch = epoch
		return nil
	}
	var set body.SyncStateSet
	if err := body.Decode(data, &set); err != nil {
		return err
	}
	v.SyncStateSet, v.SyncStateSetEpoch = set.SyncStateSet, max(set.SyncStateSetEpoch, epoch)
	return nil
}

// ReadNotice reads NOTIFY_BROKER_ROLE_CHANGED.
func ReadNotice(h *codec.NotifyBrokerRoleChangedRequestHeader, data []byte) (*View, error) {
	v := &View{Master: value(h.MasterBrokerID), Address: h.MasterAddress, Epoch: value(h.MasterEpoch)}
	if err := v.readSet(data, value(h.SyncStateSetEpoch)); err != nil {
		return nil, fmt.Errorf("replicas: SyncStateSet: %w", err)
	}
	return v, nil
}

// value of a field that may be absent.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
