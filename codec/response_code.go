package codec

import "strconv"

// Response codes (Java RemotingSysResponseCode and ResponseCode; spec request-codes.md §0). Untyped like the
// request codes.
const (
	RespRPCTimeOut                           = -1006
	RespRPCSendToChannelFailed               = -1004
	RespRPCAddrIsNull                        = -1002
	RespRPCUnknown                           = -1000
	RespSuccess                              = 0
	RespSystemError                          = 1
	RespSystemBusy                           = 2
	RespRequestCodeNotSupported              = 3
	RespTransactionFailed                    = 4
	RespFlushDiskTimeout                     = 10 // the message is stored, its flush is late
	RespSlaveNotAvailable                    = 11 // the message is stored, there is no slave
	RespFlushSlaveTimeout                    = 12 // the message is stored, the slave is late
	RespMessageIllegal                       = 13
	RespServiceNotAvailable                  = 14
	RespVersionNotSupported                  = 15
	RespNoPermission                         = 16
	RespTopicNotExist                        = 17
	RespTopicExistAlready                    = 18
	RespPullNotFound                         = 19
	RespPullRetryImmediately                 = 20
	RespPullOffsetMoved                      = 21
	RespQueryNotFound                        = 22
	RespSubscriptionParseFailed              = 23
	RespSubscriptionNotExist                 = 24
	RespSubscriptionNotLatest                = 25
	RespSubscriptionGroupNotExist            = 26
	RespFilterDataNotExist                   = 27
	RespFilterDataNotLatest                  = 28
	RespInvalidParameter                     = 29
	RespTransactionShouldCommit              = 200
	RespTransactionShouldRollback            = 201
	RespTransactionStateUnknow               = 202
	RespTransactionStateGroupWrong           = 203
	RespNoBuyerID                            = 204
	RespNotInCurrentUnit                     = 205
	RespConsumerNotOnline                    = 206
	RespConsumeMsgTimeout                    = 207
	RespNoMessage                            = 208
	RespPollingFull                          = 209
	RespPollingTimeout                       = 210
	RespBrokerNotExist                       = 211
	RespBrokerDispatchNotComplete            = 212
	RespBroadcastConsumption                 = 213
	RespFlowControl                          = 215
	RespNotLeaderForQueue                    = 501
	RespIllegalOperation                     = 604
	RespGoAway                               = 1500
	RespControllerFencedMasterEpoch          = 2000
	RespControllerFencedSyncStateSetEpoch    = 2001
	RespControllerInvalidMaster              = 2002
	RespControllerInvalidReplicas            = 2003
	RespControllerMasterNotAvailable         = 2004
	RespControllerInvalidRequest             = 2005
	RespControllerBrokerNotAlive             = 2006
	RespControllerNotLeader                  = 2007
	RespControllerBrokerMetadataNotExist     = 2008
	RespControllerInvalidCleanBrokerMetadata = 2009
	RespControllerBrokerNeedToBeRegistered   = 2010
	RespControllerMasterStillExist           = 2011
	RespControllerElectMasterFailed          = 2012
	RespControllerAlterSyncStateSetFailed    = 2013
	RespControllerBrokerIDInvalid            = 2014
	RespControllerJRaftInternalError         = 2015
	RespControllerBrokerLiveInfoNotExists    = 2016
	RespUserNotExist                         = 3001
	RespPolicyNotExist                       = 3002
)

// What 4.9 brokers mean by 209 to 211: failures of the ACL 1.0 commands.
const (
	RespUpdateAndCreateACLConfigFailed     = 209
	RespDeleteACLConfigFailed              = 210
	RespUpdateGlobalWhiteAddrsConfigFailed = 211
)

var responseCodeNames = map[int]string{
	RespRPCTimeOut:                           "RPC_TIME_OUT",
	RespRPCSendToChannelFailed:               "RPC_SEND_TO_CHANNEL_FAILED",
	RespRPCAddrIsNull:                        "RPC_ADDR_IS_NULL",
	RespRPCUnknown:                           "RPC_UNKNOWN",
	RespSuccess:                              "SUCCESS",
	RespSystemError:                          "SYSTEM_ERROR",
	RespSystemBusy:                           "SYSTEM_BUSY",
	RespRequestCodeNotSupported:              "REQUEST_CODE_NOT_SUPPORTED",
	RespTransactionFailed:                    "TRANSACTION_FAILED",
	RespFlushDiskTimeout:                     "FLUSH_DISK_TIMEOUT",
	RespSlaveNotAvailable:                    "SLAVE_NOT_AVAILABLE",
	RespFlushSlaveTimeout:                    "FLUSH_SLAVE_TIMEOUT",
	RespMessageIllegal:                       "MESSAGE_ILLEGAL",
	RespServiceNotAvailable:                  "SERVICE_NOT_AVAILABLE",
	RespVersionNotSupported:                  "VERSION_NOT_SUPPORTED",
	RespNoPermission:                         "NO_PERMISSION",
	RespTopicNotExist:                        "TOPIC_NOT_EXIST",
	RespTopicExistAlready:                    "TOPIC_EXIST_ALREADY",
	RespPullNotFound:                         "PULL_NOT_FOUND",
	RespPullRetryImmediately:                 "PULL_RETRY_IMMEDIATELY",
	RespPullOffsetMoved:                      "PULL_OFFSET_MOVED",
	RespQueryNotFound:                        "QUERY_NOT_FOUND",
	RespSubscriptionParseFailed:              "SUBSCRIPTION_PARSE_FAILED",
	RespSubscriptionNotExist:                 "SUBSCRIPTION_NOT_EXIST",
	RespSubscriptionNotLatest:                "SUBSCRIPTION_NOT_LATEST",
	RespSubscriptionGroupNotExist:            "SUBSCRIPTION_GROUP_NOT_EXIST",
	RespFilterDataNotExist:                   "FILTER_DATA_NOT_EXIST",
	RespFilterDataNotLatest:                  "FILTER_DATA_NOT_LATEST",
	RespInvalidParameter:                     "INVALID_PARAMETER",
	RespTransactionShouldCommit:              "TRANSACTION_SHOULD_COMMIT",
	RespTransactionShouldRollback:            "TRANSACTION_SHOULD_ROLLBACK",
	RespTransactionStateUnknow:               "TRANSACTION_STATE_UNKNOW",
	RespTransactionStateGroupWrong:           "TRANSACTION_STATE_GROUP_WRONG",
	RespNoBuyerID:                            "NO_BUYER_ID",
	RespNotInCurrentUnit:                     "NOT_IN_CURRENT_UNIT",
	RespConsumerNotOnline:                    "CONSUMER_NOT_ONLINE",
	RespConsumeMsgTimeout:                    "CONSUME_MSG_TIMEOUT",
	RespNoMessage:                            "NO_MESSAGE",
	RespPollingFull:                          "POLLING_FULL",
	RespPollingTimeout:                       "POLLING_TIMEOUT",
	RespBrokerNotExist:                       "BROKER_NOT_EXIST",
	RespBrokerDispatchNotComplete:            "BROKER_DISPATCH_NOT_COMPLETE",
	RespBroadcastConsumption:                 "BROADCAST_CONSUMPTION",
	RespFlowControl:                          "FLOW_CONTROL",
	RespNotLeaderForQueue:                    "NOT_LEADER_FOR_QUEUE",
	RespIllegalOperation:                     "ILLEGAL_OPERATION",
	RespGoAway:                               "GO_AWAY",
	RespControllerFencedMasterEpoch:          "CONTROLLER_FENCED_MASTER_EPOCH",
	RespControllerFencedSyncStateSetEpoch:    "CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH",
	RespControllerInvalidMaster:              "CONTROLLER_INVALID_MASTER",
	RespControllerInvalidReplicas:            "CONTROLLER_INVALID_REPLICAS",
	RespControllerMasterNotAvailable:         "CONTROLLER_MASTER_NOT_AVAILABLE",
	RespControllerInvalidRequest:             "CONTROLLER_INVALID_REQUEST",
	RespControllerBrokerNotAlive:             "CONTROLLER_BROKER_NOT_ALIVE",
	RespControllerNotLeader:                  "CONTROLLER_NOT_LEADER",
	RespControllerBrokerMetadataNotExist:     "CONTROLLER_BROKER_METADATA_NOT_EXIST",
	RespControllerInvalidCleanBrokerMetadata: "CONTROLLER_INVALID_CLEAN_BROKER_METADATA",
	RespControllerBrokerNeedToBeRegistered:   "CONTROLLER_BROKER_NEED_TO_BE_REGISTERED",
	RespControllerMasterStillExist:           "CONTROLLER_MASTER_STILL_EXIST",
	RespControllerElectMasterFailed:          "CONTROLLER_ELECT_MASTER_FAILED",
	RespControllerAlterSyncStateSetFailed:    "CONTROLLER_ALTER_SYNC_STATE_SET_FAILED",
	RespControllerBrokerIDInvalid:            "CONTROLLER_BROKER_ID_INVALID",
	RespControllerJRaftInternalError:         "CONTROLLER_JRAFT_INTERNAL_ERROR",
	RespControllerBrokerLiveInfoNotExists:    "CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS",
	RespUserNotExist:                         "USER_NOT_EXIST",
	RespPolicyNotExist:                       "POLICY_NOT_EXIST",
}

// ResponseCodeName is the name of a response code in Java's spelling (that of 5.x for 209 to 211); the number
// as text when Java has no such code.
func ResponseCodeName(code int) string {
	if name, ok := responseCodeNames[code]; ok {
		return name
	}
	return strconv.Itoa(code)
}
