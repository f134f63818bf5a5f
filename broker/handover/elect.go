package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skylark/client"
	"skylark/codec"
)

// errNoLeader: no controller says who leads.
var errNoLeader = errors.New("no controller leads")

// elect has the controllers elect the replica. Without an answer nobody knows whether they did: this broker then asks to be
// elected itself, again and again, for what is decided about that is decided after the first question. It returns when it
// knows, or when the broker stops.
func (s *Service) elect(p *plan) (epoch int32, err error) {
	h, sent, err := s.askElection(p, p.to)
	switch {
	case err == nil && *h.MasterBrokerID == p.to:
		return *h.MasterEpoch, nil
	case err == nil:
		return 0, fmt.Errorf("%w: they elected %d", ErrController, *h.MasterBrokerID)
	case !sent || definite(err):
		return 0, fmt.Errorf("%w: %w", ErrController, err)
	}
	p.log.Warn("the controllers' answer is lost, puts wait until they say who is master", "error", err)
	for {
		_, _, again := s.askElection(p, p.self)
		switch {
		case again == nil, client.IsResponse(again, codec.RespControllerMasterStillExist):
			return 0, fmt.Errorf("%w: their answer was lost, and this broker is master: %w", ErrController, err)
		case definite(again):
			return s.askMaster(p)
		}
		if !s.pause(s.ctx, callTimeout/10) {
			return 0, s.ctx.Err()
		}
	}
}

// definite tells that an answer of the controllers decides: they have looked, and done nothing.
func definite(err error) bool {
	var re *client.ResponseError
	return errors.As(err, &re) && re.Code != codec.RespControllerNotLeader && re.Code != codec.RespSystemBusy &&
		re.Code != codec.RespSystemError
}

// askMaster asks who is master when it is certain that another one was elected. A controller that does not say so does not
// know yet.
func (s *Service) askMaster(p *plan) (int32, error) {
	for {
		var h codec.GetReplicaInfoResponseHeader
		_, err := s.askLeader(s.ctx, callTimeout, func() *codec.Command {
			req := codec.NewRequest(codec.ReqControllerGetReplicaInfo)
			codec.EncodeHeader(req, &codec.GetReplicaInfoRequestHeader{BrokerName: s.o.BrokerName})
			return req
		}, func(answer *codec.Command) error { return codec.DecodeHeader(answer, &h) })
		if err == nil && h.MasterBrokerID != nil && h.MasterEpoch != nil && *h.MasterEpoch > p.epoch {
			if *h.MasterBrokerID == p.to {
				return *h.MasterEpoch, nil
			}
			return 0, fmt.Errorf("%w: they elected %d meanwhile", ErrController, *h.MasterBrokerID)
		}
		if !s.pause(s.ctx, callTimeout/10) {
			return 0, s.ctx.Err()
		}
	}
}

// askElection asks for a replica to be elected. sent is false if no controller has got the question.
func (s *Service) askElection(p *plan, id int64) (h *codec.ElectMasterResponseHeader, sent bool, err error) {
	h = &codec.ElectMasterResponseHeader{}
	sent, err = s.askLeader(s.ctx, electTimeout, func() *codec.Command {
		req := codec.NewRequest(codec.ReqControllerElectMaster)
		codec.EncodeHeader(req, &codec.ElectMasterRequestHeader{ClusterName: s.o.Cluster, BrokerName: s.o.BrokerName,
			BrokerID: id, DesignateElect: true, InvokeTime: s.o.Clock.Millis()})
		return req
	}, func(answer *codec.Command) error {
		if err := codec.DecodeHeader(answer, h); err != nil {
			return err
		}
		if h.MasterBrokerID == nil || h.MasterEpoch == nil {
			return fmt.Errorf("the controllers do not say who is master")
		}
		return nil
	})
	return h, sent, err
}

// askLeader sends a request to the controller that leads, once. sent tells that it may have got it.
func (s *Service) askLeader(ctx context.Context, limit time.Duration, request func() *codec.Command,
	take func(*codec.Command) error) (sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	leader, err := s.leader(ctx)
	for err != nil {
		if !s.pause(ctx, 10*pollInterval) {
			return false, err
		}
		leader, err = s.leader(ctx)
	}
	answer, err := s.o.Client.Do(ctx, leader, request())
	if err != nil {
		return true, err
	}
	return true, take(answer)
}

// leader asks all controllers at once which of them leads; the first that knows counts.
func (s *Service) leader(ctx context.Context) (string, error) {
	addrs := s.o.Controllers()
	ctx, cancel := context.WithTimeout(ctx, electTimeout)
	defer cancel()
	found := make(chan string, len(addrs))
	for _, addr := range addrs {
		s.wg.Go(func() {
			answer, err := s.o.Client.Do(ctx, addr, codec.NewRequest(codec.ReqControllerGetMetadataInfo))
			var h codec.GetMetadataResponseHeader
			if err == nil && codec.DecodeHeader(answer, &h) == nil {
				found <- h.ControllerLeaderAddress
				return
			}
			found <- ""
		})
	}
	for range addrs {
		if leader := <-found; leader != "" {
			return leader, nil
		}
	}
	return "", errNoLeader
}
