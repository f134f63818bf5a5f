// Command producer sends 1,000 messages to the topic "example".
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const count = 1000

func main() {
	rlog.SetLogLevel("error")
	namesrv := "127.0.0.1:9876"
	if v := os.Getenv("NAMESRV"); v != "" {
		namesrv = v
	}
	p, err := rocketmq.NewProducer(producer.WithNameServer(primitive.NamesrvAddr{namesrv}),
		producer.WithGroupName("example-producer"))
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Start(); err != nil {
		log.Fatal(err)
	}
	for i := range count {
		m := primitive.NewMessage("example", fmt.Appendf(nil, "message %d", i))
		m.WithTag("TagA").WithKeys([]string{fmt.Sprint("key-", i)})
		if _, err := p.SendSync(context.Background(), m); err != nil {
			log.Fatalf("message %d: %v", i, err)
		}
	}
	fmt.Println("sent", count, "messages")
	if err := p.Shutdown(); err != nil {
		log.Fatal(err)
	}
}
