package namesrv

import (
	"skylark/codec"
	"skylark/config/update"
	"skylark/reactor/rpc"
)

var configCodes = []int{codec.ReqUpdateNamesrvConfig, codec.ReqGetNamesrvConfig}

// ConfigProcessor shows and changes settings (Java DefaultRequestProcessor: 318, 319). Deviations: those of package update.
type ConfigProcessor struct{ settings *update.Settings }

// Process implements rpc.Processor.
func (p *ConfigProcessor) Process(r *rpc.Request) {
	if r.Cmd.Code == codec.ReqGetNamesrvConfig {
		p.settings.Show(r)
		return
	}
	p.settings.Change(r)
}
