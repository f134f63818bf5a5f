package body

import (
	"fmt"
	"strconv"
	"strings"

	"skylark/codec/fastjson"
)

// TopicFilterType tells how a topic's messages are tagged (Java TopicFilterType).
type TopicFilterType string

// The filter types; MULTI_TAG is refused by 5.x brokers.
const (
	SingleTag TopicFilterType = "SINGLE_TAG"
	MultiTag  TopicFilterType = "MULTI_TAG"
)

// UnmarshalText takes the name in any case or the ordinal.
func (t *TopicFilterType) UnmarshalText(text []byte) error {
	*t = TopicFilterType(enumName(text, []string{string(SingleTag), string(MultiTag)}))
	return nil
}

// TopicConfig is a topic of a broker (Java TopicConfig). 4.9 has no attributes.
type TopicConfig struct {
	Attributes      map[string]string `json:"attributes"`
	Order           bool              `json:"order"`
	Perm            int32             `json:"perm"`
	ReadQueueNums   int32             `json:"readQueueNums"`
	TopicFilterType TopicFilterType   `json:"topicFilterType,omitnull"`
	TopicName       string            `json:"topicName,omitnull"`
	TopicSysFlag    int32             `json:"topicSysFlag"`
	WriteQueueNums  int32             `json:"writeQueueNums"`
}

// SetDefaults gives 16 queues for reading and writing, perm RW and SINGLE_TAG.
func (c *TopicConfig) SetDefaults() {
	c.ReadQueueNums, c.WriteQueueNums, c.Perm, c.TopicFilterType = 16, 16, 6, SingleTag
}

// Line is the topic's line in a compressed register body (Java TopicConfig.encode): order and sysFlag are
// lost.
func (c *TopicConfig) Line() (string, error) {
	attributes, err := fastjson.Marshal(c.Attributes)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d %d %s %s", c.TopicName, c.ReadQueueNums, c.WriteQueueNums, c.Perm,
		c.TopicFilterType,
		attributes), nil
}

// ParseTopicLine is the reverse of Line. At least five words are needed; attributes that cannot be read,
// because they contain a space, are left out, as in Java.
func ParseTopicLine(line string) (*TopicConfig, error) {
	words := strings.Split(line, " ")
	if len(words) < 5 {
		return nil, fmt.Errorf("body: topic line %q has %d words, at least 5 needed", line, len(words))
	}
	c := &TopicConfig{TopicName: words[0], TopicFilterType: TopicFilterType(words[4])}
	for i, dst := range []*int32{&c.ReadQueueNums, &c.WriteQueueNums, &c.Perm} {
		n, err := strconv.ParseInt(words[1+i], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("body: topic line %q: %w", line, err)
		}
		*dst = int32(n)
	}
	if len(words) >= 6 && words[5] != "" {
		var attributes map[string]string
		if fastjson.Unmarshal([]byte(words[5]), &attributes) == nil {
			c.Attributes = attributes
		}
	}
	return c, nil
}

// TopicConfigSerializeWrapper is the topics of a broker with their version: GET_ALL_TOPIC_CONFIG of 4.9,
// topics.json.
type TopicConfigSerializeWrapper struct {
	DataVersion      DataVersion             `json:"dataVersion"`
	TopicConfigTable map[string]*TopicConfig `json:"topicConfigTable"`
}

// TopicConfigAndMappingSerializeWrapper is the same of 5.x, with the static topics. A register request
// carries the InfoMap, GET_ALL_TOPIC_CONFIG the DetailMap.
type TopicConfigAndMappingSerializeWrapper struct {
	DataVersion                DataVersion                         `json:"dataVersion"`
	MappingDataVersion         DataVersion                         `json:"mappingDataVersion"`
	TopicConfigTable           map[string]*TopicConfig             `json:"topicConfigTable"`
	TopicQueueMappingDetailMap map[string]*TopicQueueMappingDetail `json:"topicQueueMappingDetailMap"`
	TopicQueueMappingInfoMap   map[string]*TopicQueueMappingInfo   `json:"topicQueueMappingInfoMap"`
}

// TopicQueueMappingSerializeWrapper is the text of topicQueueMapping.json.
type TopicQueueMappingSerializeWrapper struct {
	DataVersion              DataVersion                         `json:"dataVersion"`
	TopicQueueMappingInfoMap map[string]*TopicQueueMappingDetail `json:"topicQueueMappingInfoMap"`
}

// CreateTopicListRequestBody is for UPDATE_AND_CREATE_TOPIC_LIST (18).
type CreateTopicListRequestBody struct {
	TopicConfigList []*TopicConfig `json:"topicConfigList"`
}
