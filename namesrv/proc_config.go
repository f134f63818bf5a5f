package namesrv

import (
	"errors"
	"strings"

	"skylark/codec"
	"skylark/config"
	"skylark/reactor/rpc"
)

var configCodes = []int{codec.ReqUpdateNamesrvConfig, codec.ReqGetNamesrvConfig}

// ConfigProcessor shows and changes settings (Java DefaultRequestProcessor: 318, 319). Deviations: a key that
// nobody knows and a value of the wrong kind are INVALID_PARAMETER with the reason, and nothing is changed,
// where Java ignores them with success; paths, credentials and TLS keys cannot be changed; a change that
// cannot be saved is SYSTEM_ERROR.
type ConfigProcessor struct{ ns *NameServer }

// Process implements rpc.Processor.
func (p *ConfigProcessor) Process(r *rpc.Request) {
	if r.Cmd.Code == codec.ReqGetNamesrvConfig {
		r.ReplyBody([]byte(p.ns.o.Config.Describe()))
		return
	}
	p.update(r)
}

func (p *ConfigProcessor) update(r *rpc.Request) {
	if len(r.Cmd.Body) == 0 {
		r.OK()
		return
	}
	f, err := config.Parse(string(r.Cmd.Body), "body")
	if err != nil {
		r.ReplyError(codec.RespSystemError, "string2Properties error: "+err.Error())
		return
	}
	p.ns.configuring.Lock()
	defer p.ns.configuring.Unlock()
	set := p.ns.o.Config
	changes, err := set.Apply(f.Map(), config.BlackList(p.ns.settings().ConfigBlackList))
	var forbidden *config.ForbiddenError
	switch {
	case errors.As(err, &forbidden):
		r.ReplyError(codec.RespNoPermission,
			"Can not update config in black list. "+strings.Join(forbidden.Keys, ", "))
		return
	case err != nil:
		r.ReplyError(codec.RespInvalidParameter, err.Error())
		return
	}
	if len(changes) == 0 {
		r.OK()
		return
	}
	for _, c := range changes {
		p.ns.o.Log.Info("setting changed", "key", c.Key, "old", c.Old, "new", c.New, "live", c.Live, "remote",
			r.Conn().RemoteAddr())
	}
	if err := saveFile(p.ns.o.FS, p.ns.configFile(), []byte(set.Text())); err != nil {
		r.ReplyError(codec.RespSystemError, "the change is in force but could not be saved: "+err.Error())
		return
	}
	remark := ""
	if keys := changes.RestartKeys(); len(keys) > 0 {
		remark = "after a restart: " + strings.Join(keys, ", ")
	}
	r.Reply(codec.NewResponse(r.Cmd, codec.RespSuccess, remark))
}
