package admin

import (
	"context"
	"fmt"
	"time"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// switchTime is what a hand-over may take besides the waiting for the replica.
const switchTime = 20 * time.Second

// handOver asks the master to give its role away.
func handOver(ctx context.Context, o *Options) error {
	addr, err := findMaster(ctx, o)
	if err != nil {
		return err
	}
	o.Say("master of %s: %s", o.Broker, addr)
	ctx, cancel := context.WithTimeout(ctx, o.Wait+switchTime)
	defer cancel()
	req := codec.NewRequest(codec.ReqHandover)
	codec.EncodeHeader(req, &codec.HandoverRequestHeader{To: o.To, WaitMillis: o.Wait.Milliseconds()})
	answer, err := o.Client.Do(ctx, addr, req)
	if client.IsResponse(err, codec.RespRequestCodeNotSupported) {
		return fmt.Errorf("admin: the master at %s is no Skylark: it can only be switched at once (mqadmin electMaster), which "+
			"sends that are under way notice", addr)
	}
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	var h codec.HandoverResponseHeader
	if err := codec.DecodeHeader(answer, &h); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	o.Say("new master: %d at %s, epoch %d", h.MasterBrokerID, h.MasterAddress, h.MasterEpoch)
	o.Say("requests waited for %d ms, %d of them; the replica had caught up after %d ms", h.HeldMillis, h.HeldRequests,
		h.CaughtUpMillis)
	o.Say("%s is a slave now. For %v it passes on what clients still send to it; clients look for the new address every 30 s, "+
		"so do not stop it before.", addr, time.Duration(h.ForwardMillis)*time.Millisecond)
	return nil
}

// findMaster asks name servers or controllers.
func findMaster(ctx context.Context, o *Options) (string, error) {
	if len(o.Controller) == 0 {
		info, err := client.NewNameServers(o.Client, o.Namesrv).ClusterInfo(ctx)
		if err != nil {
			return "", fmt.Errorf("admin: name servers: %w", err)
		}
		if addr := client.Masters(info)[o.Broker]; addr != "" {
			return addr, nil
		}
		return "", fmt.Errorf("admin: the name servers know no master of %s", o.Broker)
	}
	err := fmt.Errorf("admin: no controller knows a master of %s", o.Broker)
	for _, addr := range o.Controller {
		answer, e := o.Client.Do(ctx, addr, codec.NewRequest(codec.ReqControllerGetMetadataInfo))
		var meta codec.GetMetadataResponseHeader
		if e == nil {
			e = codec.DecodeHeader(answer, &meta)
		}
		if e != nil || meta.ControllerLeaderAddress == "" {
			continue
		}
		req := codec.NewRequest(codec.ReqControllerGetSyncStateData)
		if req.Body, e = body.Encode([]string{o.Broker}); e != nil {
			return "", fmt.Errorf("admin: %w", e)
		}
		if answer, e = o.Client.Do(ctx, meta.ControllerLeaderAddress, req); e != nil {
			err = fmt.Errorf("admin: controller %s: %w", meta.ControllerLeaderAddress, e)
			continue
		}
		var data body.BrokerReplicasInfo
		if e := body.Decode(answer.Body, &data); e != nil {
			return "", fmt.Errorf("admin: controller %s: %w", meta.ControllerLeaderAddress, e)
		}
		if info := data.ReplicasInfoTable[o.Broker]; info != nil && info.MasterAddress != "" {
			return info.MasterAddress, nil
		}
	}
	return "", err
}
