package codec

import "strconv"

// Request codes (Java RequestCode; spec request-codes.md says what each carries). They are untyped, so that
// they compare with Command.Code and go into a header of either width.

// Produce.
const (
	ReqSendMessage         = 10
	ReqSendMessageV2       = 310
	ReqSendBatchMessage    = 320
	ReqConsumerSendMsgBack = 36
	ReqEndTransaction      = 37
	ReqSendReplyMessage    = 324
	ReqSendReplyMessageV2  = 325
	ReqRecallMessage       = 370
)

// Consume: pull, pop, assignment.
const (
	ReqPullMessage                = 11
	ReqLitePullMessage            = 361
	ReqPopMessage                 = 200050
	ReqAckMessage                 = 200051
	ReqBatchAckMessage            = 200151
	ReqChangeMessageInvisibleTime = 200053
	ReqPeekMessage                = 200052
	ReqNotification               = 200054
	ReqPollingInfo                = 200055
	ReqPopRollback                = 200056
	ReqQueryAssignment            = 400
	ReqSetMessageRequestMode      = 401
	ReqGetAllMessageRequestMode   = 402
)

// Consumer offsets, membership and locks.
const (
	ReqQueryConsumerOffset     = 14
	ReqUpdateConsumerOffset    = 15
	ReqSearchOffsetByTimestamp = 29
	ReqGetMaxOffset            = 30
	ReqGetMinOffset            = 31
	ReqGetEarliestMsgStoreTime = 32
	ReqHeartBeat               = 34
	ReqUnregisterClient        = 35
	ReqGetConsumerListByGroup  = 38
	ReqLockBatchMQ             = 41
	ReqUnlockBatchMQ           = 42
	ReqCheckClientConfig       = 46
)

// Message query.
const (
	ReqQueryMessage      = 12
	ReqViewMessageByID   = 33
	ReqQueryConsumeQueue = 321
)

// Topic and group administration at the broker.
const (
	ReqUpdateAndCreateTopic                 = 17
	ReqUpdateAndCreateTopicList             = 18
	ReqGetAllTopicConfig                    = 21
	ReqDeleteTopicInBroker                  = 215
	ReqGetTopicConfig                       = 351
	ReqGetTopicStatsInfo                    = 202
	ReqUpdateAndCreateSubscriptionGroup     = 200
	ReqUpdateAndCreateSubscriptionGroupList = 225
	ReqGetAllSubscriptionGroupConfig        = 201
	ReqGetSubscriptionGroupConfig           = 352
	ReqUpdateAndGetGroupForbidden           = 353
	ReqDeleteSubscriptionGroup              = 207
	ReqUpdateAndCreateStaticTopic           = 513
	ReqQueryTopicConsumeByWho               = 300
	ReqQueryTopicsByConsumer                = 343
	ReqQuerySubscriptionByConsumer          = 345
	ReqGetSystemTopicListFromBroker         = 305
	ReqCloneGroupOffset                     = 314
	ReqCleanExpiredConsumeQueue             = 306
	ReqCleanUnusedTopic                     = 316
	ReqDeleteExpiredCommitLog               = 329
	ReqQueryCorrectionOffset                = 308
)

// Statistics and a look into clients.
const (
	ReqGetConsumerConnectionList       = 203
	ReqGetProducerConnectionList       = 204
	ReqGetAllProducerInfo              = 328
	ReqGetConsumeStats                 = 208
	ReqGetBrokerConsumeStats           = 317
	ReqQueryConsumeTimeSpan            = 303
	ReqGetConsumerRunningInfo          = 307
	ReqConsumeMessageDirectly          = 309
	ReqInvokeBrokerToResetOffset       = 222
	ReqInvokeBrokerToGetConsumerStatus = 223
	ReqViewBrokerStatsData             = 315
	ReqResumeCheckHalfMessage          = 323
)

// Broker configuration, runtime and what slaves copy.
const (
	ReqUpdateBrokerConfig          = 25
	ReqGetBrokerConfig             = 26
	ReqGetBrokerRuntimeInfo        = 28
	ReqGetAllConsumerOffset        = 43
	ReqGetAllDelayOffset           = 45
	ReqGetTimerCheckPoint          = 60
	ReqGetTimerMetrics             = 61
	ReqUpdateColdDataFlowCtrConfig = 2001
	ReqRemoveColdDataFlowCtrConfig = 2002
	ReqGetColdDataFlowCtrInfo      = 2003
	ReqSetCommitLogReadMode        = 2004
	ReqCheckRocksDBCQWriteProgress = 354
	ReqExportRocksDBConfigToJSON   = 355
)

// Accounts: ACL 1.0 (4.9 to 5.3.2) and ACL 2.0 (5.3).
const (
	ReqUpdateAndCreateACLConfig     = 50
	ReqDeleteACLConfig              = 51
	ReqGetBrokerClusterACLInfo      = 52
	ReqUpdateGlobalWhiteAddrsConfig = 53
	ReqGetBrokerClusterACLConfig    = 54
	ReqAuthCreateUser               = 3001
	ReqAuthUpdateUser               = 3002
	ReqAuthDeleteUser               = 3003
	ReqAuthGetUser                  = 3004
	ReqAuthListUser                 = 3005
	ReqAuthCreateACL                = 3006
	ReqAuthUpdateACL                = 3007
	ReqAuthDeleteACL                = 3008
	ReqAuthGetACL                   = 3009
	ReqAuthListACL                  = 3010
)

// Broker to client.
const (
	ReqCheckTransactionState       = 39
	ReqNotifyConsumerIDsChanged    = 40
	ReqResetConsumerClientOffset   = 220
	ReqGetConsumerStatusFromClient = 221
	ReqPushReplyMessageToClient    = 326
)

// Name server.
const (
	ReqPutKVConfig                   = 100
	ReqGetKVConfig                   = 101
	ReqDeleteKVConfig                = 102
	ReqGetKVListByNamespace          = 219
	ReqRegisterBroker                = 103
	ReqUnregisterBroker              = 104
	ReqGetRouteInfoByTopic           = 105
	ReqGetBrokerClusterInfo          = 106
	ReqWipeWritePermOfBroker         = 205
	ReqAddWritePermOfBroker          = 327
	ReqGetAllTopicListFromNameserver = 206
	ReqDeleteTopicInNamesrv          = 216
	ReqRegisterTopicInNamesrv        = 217
	ReqGetTopicsByCluster            = 224
	ReqGetSystemTopicListFromNS      = 304
	ReqGetUnitTopicList              = 311
	ReqGetHasUnitSubTopicList        = 312
	ReqGetHasUnitSubUnunitTopicList  = 313
	ReqUpdateNamesrvConfig           = 318
	ReqGetNamesrvConfig              = 319
	ReqQueryDataVersion              = 322
	ReqGetBrokerMemberGroup          = 901
	ReqBrokerHeartbeat               = 904
)

// HA, acting master, broker container.
const (
	ReqNotifyMinBrokerIDChange = 905
	ReqExchangeBrokerHAInfo    = 906
	ReqGetBrokerHAStatus       = 907
	ReqResetMasterFlushOffset  = 908
	ReqAddBroker               = 902
	ReqRemoveBroker            = 903
	ReqGetBrokerEpochCache     = 1007
	ReqNotifyBrokerRoleChanged = 1008
)

// Controller.
const (
	ReqControllerAlterSyncStateSet = 1001
	ReqControllerElectMaster       = 1002
	ReqControllerRegisterBroker    = 1003
	ReqControllerGetReplicaInfo    = 1004
	ReqControllerGetMetadataInfo   = 1005
	ReqControllerGetSyncStateData  = 1006
	ReqUpdateControllerConfig      = 1009
	ReqGetControllerConfig         = 1010
	ReqCleanBrokerData             = 1011
	ReqControllerGetNextBrokerID   = 1012
	ReqControllerApplyBrokerID     = 1013
	// ReqControllerRaft carries Raft's messages between Skylark's controllers; Java has no such code.
	ReqControllerRaft = 31001
	// ReqHandover has a master of Skylark give its role to a replica (HandoverHeader); Java has no such code.
	ReqHandover = 31002
)

// Defined in Java but served nowhere: the answer is REQUEST_CODE_NOT_SUPPORTED.
const (
	ReqQueryBrokerOffset             = 13
	ReqGetTopicConfigList            = 22
	ReqGetTopicNameList              = 23
	ReqTriggerDeleteFiles            = 27
	ReqGetClientConfig               = 47
	ReqSuspendConsumer               = 209
	ReqResumeConsumer                = 210
	ReqResetConsumerOffsetInConsumer = 211
	ReqResetConsumerOffsetInBroker   = 212
	ReqAdjustConsumerThreadPool      = 213
	ReqWhoConsumeTheMessage          = 214
	ReqRegisterFilterServer          = 301
	ReqRegisterMessageFilterClass    = 302
)

var requestCodeNames = map[int]string{
	ReqSendMessage:                          "SEND_MESSAGE",
	ReqPullMessage:                          "PULL_MESSAGE",
	ReqQueryMessage:                         "QUERY_MESSAGE",
	ReqQueryBrokerOffset:                    "QUERY_BROKER_OFFSET",
	ReqQueryConsumerOffset:                  "QUERY_CONSUMER_OFFSET",
	ReqUpdateConsumerOffset:                 "UPDATE_CONSUMER_OFFSET",
	ReqUpdateAndCreateTopic:                 "UPDATE_AND_CREATE_TOPIC",
	ReqUpdateAndCreateTopicList:             "UPDATE_AND_CREATE_TOPIC_LIST",
	ReqGetAllTopicConfig:                    "GET_ALL_TOPIC_CONFIG",
	ReqGetTopicConfigList:                   "GET_TOPIC_CONFIG_LIST",
	ReqGetTopicNameList:                     "GET_TOPIC_NAME_LIST",
	ReqUpdateBrokerConfig:                   "UPDATE_BROKER_CONFIG",
	ReqGetBrokerConfig:                      "GET_BROKER_CONFIG",
	ReqTriggerDeleteFiles:                   "TRIGGER_DELETE_FILES",
	ReqGetBrokerRuntimeInfo:                 "GET_BROKER_RUNTIME_INFO",
	ReqSearchOffsetByTimestamp:              "SEARCH_OFFSET_BY_TIMESTAMP",
	ReqGetMaxOffset:                         "GET_MAX_OFFSET",
	ReqGetMinOffset:                         "GET_MIN_OFFSET",
	ReqGetEarliestMsgStoreTime:              "GET_EARLIEST_MSG_STORETIME",
	ReqViewMessageByID:                      "VIEW_MESSAGE_BY_ID",
	ReqHeartBeat:                            "HEART_BEAT",
	ReqUnregisterClient:                     "UNREGISTER_CLIENT",
	ReqConsumerSendMsgBack:                  "CONSUMER_SEND_MSG_BACK",
	ReqEndTransaction:                       "END_TRANSACTION",
	ReqGetConsumerListByGroup:               "GET_CONSUMER_LIST_BY_GROUP",
	ReqCheckTransactionState:                "CHECK_TRANSACTION_STATE",
	ReqNotifyConsumerIDsChanged:             "NOTIFY_CONSUMER_IDS_CHANGED",
	ReqLockBatchMQ:                          "LOCK_BATCH_MQ",
	ReqUnlockBatchMQ:                        "UNLOCK_BATCH_MQ",
	ReqGetAllConsumerOffset:                 "GET_ALL_CONSUMER_OFFSET",
	ReqGetAllDelayOffset:                    "GET_ALL_DELAY_OFFSET",
	ReqCheckClientConfig:                    "CHECK_CLIENT_CONFIG",
	ReqGetClientConfig:                      "GET_CLIENT_CONFIG",
	ReqUpdateAndCreateACLConfig:             "UPDATE_AND_CREATE_ACL_CONFIG",
	ReqDeleteACLConfig:                      "DELETE_ACL_CONFIG",
	ReqGetBrokerClusterACLInfo:              "GET_BROKER_CLUSTER_ACL_INFO",
	ReqUpdateGlobalWhiteAddrsConfig:         "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG",
	ReqGetBrokerClusterACLConfig:            "GET_BROKER_CLUSTER_ACL_CONFIG",
	ReqGetTimerCheckPoint:                   "GET_TIMER_CHECK_POINT",
	ReqGetTimerMetrics:                      "GET_TIMER_METRICS",
	ReqPutKVConfig:                          "PUT_KV_CONFIG",
	ReqGetKVConfig:                          "GET_KV_CONFIG",
	ReqDeleteKVConfig:                       "DELETE_KV_CONFIG",
	ReqRegisterBroker:                       "REGISTER_BROKER",
	ReqUnregisterBroker:                     "UNREGISTER_BROKER",
	ReqGetRouteInfoByTopic:                  "GET_ROUTEINFO_BY_TOPIC",
	ReqGetBrokerClusterInfo:                 "GET_BROKER_CLUSTER_INFO",
	ReqUpdateAndCreateSubscriptionGroup:     "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
	ReqGetAllSubscriptionGroupConfig:        "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
	ReqGetTopicStatsInfo:                    "GET_TOPIC_STATS_INFO",
	ReqGetConsumerConnectionList:            "GET_CONSUMER_CONNECTION_LIST",
	ReqGetProducerConnectionList:            "GET_PRODUCER_CONNECTION_LIST",
	ReqWipeWritePermOfBroker:                "WIPE_WRITE_PERM_OF_BROKER",
	ReqGetAllTopicListFromNameserver:        "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
	ReqDeleteSubscriptionGroup:              "DELETE_SUBSCRIPTIONGROUP",
	ReqGetConsumeStats:                      "GET_CONSUME_STATS",
	ReqSuspendConsumer:                      "SUSPEND_CONSUMER",
	ReqResumeConsumer:                       "RESUME_CONSUMER",
	ReqResetConsumerOffsetInConsumer:        "RESET_CONSUMER_OFFSET_IN_CONSUMER",
	ReqResetConsumerOffsetInBroker:          "RESET_CONSUMER_OFFSET_IN_BROKER",
	ReqAdjustConsumerThreadPool:             "ADJUST_CONSUMER_THREAD_POOL",
	ReqWhoConsumeTheMessage:                 "WHO_CONSUME_THE_MESSAGE",
	ReqDeleteTopicInBroker:                  "DELETE_TOPIC_IN_BROKER",
	ReqDeleteTopicInNamesrv:                 "DELETE_TOPIC_IN_NAMESRV",
	ReqRegisterTopicInNamesrv:               "REGISTER_TOPIC_IN_NAMESRV",
	ReqGetKVListByNamespace:                 "GET_KVLIST_BY_NAMESPACE",
	ReqResetConsumerClientOffset:            "RESET_CONSUMER_CLIENT_OFFSET",
	ReqGetConsumerStatusFromClient:          "GET_CONSUMER_STATUS_FROM_CLIENT",
	ReqInvokeBrokerToResetOffset:            "INVOKE_BROKER_TO_RESET_OFFSET",
	ReqInvokeBrokerToGetConsumerStatus:      "INVOKE_BROKER_TO_GET_CONSUMER_STATUS",
	ReqGetTopicsByCluster:                   "GET_TOPICS_BY_CLUSTER",
	ReqUpdateAndCreateSubscriptionGroupList: "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST",
	ReqQueryTopicConsumeByWho:               "QUERY_TOPIC_CONSUME_BY_WHO",
	ReqRegisterFilterServer:                 "REGISTER_FILTER_SERVER",
	ReqRegisterMessageFilterClass:           "REGISTER_MESSAGE_FILTER_CLASS",
	ReqQueryConsumeTimeSpan:                 "QUERY_CONSUME_TIME_SPAN",
	ReqGetSystemTopicListFromNS:             "GET_SYSTEM_TOPIC_LIST_FROM_NS",
	ReqGetSystemTopicListFromBroker:         "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
	ReqCleanExpiredConsumeQueue:             "CLEAN_EXPIRED_CONSUMEQUEUE",
	ReqGetConsumerRunningInfo:               "GET_CONSUMER_RUNNING_INFO",
	ReqQueryCorrectionOffset:                "QUERY_CORRECTION_OFFSET",
	ReqConsumeMessageDirectly:               "CONSUME_MESSAGE_DIRECTLY",
	ReqSendMessageV2:                        "SEND_MESSAGE_V2",
	ReqGetUnitTopicList:                     "GET_UNIT_TOPIC_LIST",
	ReqGetHasUnitSubTopicList:               "GET_HAS_UNIT_SUB_TOPIC_LIST",
	ReqGetHasUnitSubUnunitTopicList:         "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST",
	ReqCloneGroupOffset:                     "CLONE_GROUP_OFFSET",
	ReqViewBrokerStatsData:                  "VIEW_BROKER_STATS_DATA",
	ReqCleanUnusedTopic:                     "CLEAN_UNUSED_TOPIC",
	ReqGetBrokerConsumeStats:                "GET_BROKER_CONSUME_STATS",
	ReqUpdateNamesrvConfig:                  "UPDATE_NAMESRV_CONFIG",
	ReqGetNamesrvConfig:                     "GET_NAMESRV_CONFIG",
	ReqSendBatchMessage:                     "SEND_BATCH_MESSAGE",
	ReqQueryConsumeQueue:                    "QUERY_CONSUME_QUEUE",
	ReqQueryDataVersion:                     "QUERY_DATA_VERSION",
	ReqResumeCheckHalfMessage:               "RESUME_CHECK_HALF_MESSAGE",
	ReqSendReplyMessage:                     "SEND_REPLY_MESSAGE",
	ReqSendReplyMessageV2:                   "SEND_REPLY_MESSAGE_V2",
	ReqPushReplyMessageToClient:             "PUSH_REPLY_MESSAGE_TO_CLIENT",
	ReqAddWritePermOfBroker:                 "ADD_WRITE_PERM_OF_BROKER",
	ReqGetAllProducerInfo:                   "GET_ALL_PRODUCER_INFO",
	ReqDeleteExpiredCommitLog:               "DELETE_EXPIRED_COMMITLOG",
	ReqQueryTopicsByConsumer:                "QUERY_TOPICS_BY_CONSUMER",
	ReqQuerySubscriptionByConsumer:          "QUERY_SUBSCRIPTION_BY_CONSUMER",
	ReqGetTopicConfig:                       "GET_TOPIC_CONFIG",
	ReqGetSubscriptionGroupConfig:           "GET_SUBSCRIPTIONGROUP_CONFIG",
	ReqUpdateAndGetGroupForbidden:           "UPDATE_AND_GET_GROUP_FORBIDDEN",
	ReqCheckRocksDBCQWriteProgress:          "CHECK_ROCKSDB_CQ_WRITE_PROGRESS",
	ReqExportRocksDBConfigToJSON:            "EXPORT_ROCKSDB_CONFIG_TO_JSON",
	ReqLitePullMessage:                      "LITE_PULL_MESSAGE",
	ReqRecallMessage:                        "RECALL_MESSAGE",
	ReqQueryAssignment:                      "QUERY_ASSIGNMENT",
	ReqSetMessageRequestMode:                "SET_MESSAGE_REQUEST_MODE",
	ReqGetAllMessageRequestMode:             "GET_ALL_MESSAGE_REQUEST_MODE",
	ReqUpdateAndCreateStaticTopic:           "UPDATE_AND_CREATE_STATIC_TOPIC",
	ReqGetBrokerMemberGroup:                 "GET_BROKER_MEMBER_GROUP",
	ReqAddBroker:                            "ADD_BROKER",
	ReqRemoveBroker:                         "REMOVE_BROKER",
	ReqBrokerHeartbeat:                      "BROKER_HEARTBEAT",
	ReqNotifyMinBrokerIDChange:              "NOTIFY_MIN_BROKER_ID_CHANGE",
	ReqExchangeBrokerHAInfo:                 "EXCHANGE_BROKER_HA_INFO",
	ReqGetBrokerHAStatus:                    "GET_BROKER_HA_STATUS",
	ReqResetMasterFlushOffset:               "RESET_MASTER_FLUSH_OFFSET",
	ReqControllerAlterSyncStateSet:          "CONTROLLER_ALTER_SYNC_STATE_SET",
	ReqControllerElectMaster:                "CONTROLLER_ELECT_MASTER",
	ReqControllerRegisterBroker:             "CONTROLLER_REGISTER_BROKER",
	ReqControllerGetReplicaInfo:             "CONTROLLER_GET_REPLICA_INFO",
	ReqControllerGetMetadataInfo:            "CONTROLLER_GET_METADATA_INFO",
	ReqControllerGetSyncStateData:           "CONTROLLER_GET_SYNC_STATE_DATA",
	ReqGetBrokerEpochCache:                  "GET_BROKER_EPOCH_CACHE",
	ReqNotifyBrokerRoleChanged:              "NOTIFY_BROKER_ROLE_CHANGED",
	ReqUpdateControllerConfig:               "UPDATE_CONTROLLER_CONFIG",
	ReqGetControllerConfig:                  "GET_CONTROLLER_CONFIG",
	ReqCleanBrokerData:                      "CLEAN_BROKER_DATA",
	ReqControllerGetNextBrokerID:            "CONTROLLER_GET_NEXT_BROKER_ID",
	ReqControllerApplyBrokerID:              "CONTROLLER_APPLY_BROKER_ID",
	ReqControllerRaft:                       "SKYLARK_CONTROLLER_RAFT",
	ReqHandover:                             "SKYLARK_HANDOVER",
	ReqUpdateColdDataFlowCtrConfig:          "UPDATE_COLD_DATA_FLOW_CTR_CONFIG",
	ReqRemoveColdDataFlowCtrConfig:          "REMOVE_COLD_DATA_FLOW_CTR_CONFIG",
	ReqGetColdDataFlowCtrInfo:               "GET_COLD_DATA_FLOW_CTR_INFO",
	ReqSetCommitLogReadMode:                 "SET_COMMITLOG_READ_MODE",
	ReqAuthCreateUser:                       "AUTH_CREATE_USER",
	ReqAuthUpdateUser:                       "AUTH_UPDATE_USER",
	ReqAuthDeleteUser:                       "AUTH_DELETE_USER",
	ReqAuthGetUser:                          "AUTH_GET_USER",
	ReqAuthListUser:                         "AUTH_LIST_USER",
	ReqAuthCreateACL:                        "AUTH_CREATE_ACL",
	ReqAuthUpdateACL:                        "AUTH_UPDATE_ACL",
	ReqAuthDeleteACL:                        "AUTH_DELETE_ACL",
	ReqAuthGetACL:                           "AUTH_GET_ACL",
	ReqAuthListACL:                          "AUTH_LIST_ACL",
	ReqPopMessage:                           "POP_MESSAGE",
	ReqAckMessage:                           "ACK_MESSAGE",
	ReqPeekMessage:                          "PEEK_MESSAGE",
	ReqChangeMessageInvisibleTime:           "CHANGE_MESSAGE_INVISIBLETIME",
	ReqNotification:                         "NOTIFICATION",
	ReqPollingInfo:                          "POLLING_INFO",
	ReqPopRollback:                          "POP_ROLLBACK",
	ReqBatchAckMessage:                      "BATCH_ACK_MESSAGE",
}

// RequestCodeName is the name of a request code in Java's spelling, for logs and metrics; the number as text
// when Java has no such code.
func RequestCodeName(code int) string {
	if name, ok := requestCodeNames[code]; ok {
		return name
	}
	return strconv.Itoa(code)
}

// popCodeHighBits is what a 16-bit code field loses of the POP codes 200050 to 200151.
const popCodeHighBits = 0x30000

// NormalizeRequestCode restores a POP code that was cut to 16 bits, as the binary header does it (200050 arrives as 3442;
// spec wire.md §3). Java answers 3 to such a request; we serve it, in either header, for nothing else has these codes. All
// other codes are returned unchanged.
func NormalizeRequestCode(code int) int {
	wide := code | popCodeHighBits
	if wide >= ReqPopMessage && wide <= ReqPopRollback || wide == ReqBatchAckMessage {
		return wide
	}
	return code
}
