// Command consumer receives messages of the topic "example" until there were 1,000 different ones.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	count = 1000
	limit = 2 * time.Minute
)

func main() {
	rlog.SetLogLevel("error")
	namesrv := "127.0.0.1:9876"
	if v := os.Getenv("NAMESRV"); v != "" {
		namesrv = v
	}
	c, err := rocketmq.NewPushConsumer(consumer.WithNameServer(primitive.NamesrvAddr{namesrv}),
		consumer.WithGroupName("example-go-consumer"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		log.Fatal(err)
	}
	var mu sync.Mutex
	ids, all := map[string]bool{}, make(chan struct{})
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: "TagA"}
	err = c.Subscribe("example", selector,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, m := range messages {
				if !ids[m.MsgId] {
					ids[m.MsgId] = true
					if len(ids) == count {
						close(all)
					}
				}
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Start(); err != nil {
		log.Fatal(err)
	}
	select {
	case <-all:
	case <-time.After(limit):
	}
	if err := c.Shutdown(); err != nil {
		log.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	fmt.Println("received", len(ids), "messages")
	if len(ids) < count {
		os.Exit(1)
	}
}
