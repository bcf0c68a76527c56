package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"turnout/schemas/attempt"
)

const (
	none = 1 << iota >> 1
	ctxLen
	badKey
)

// Bodies as the providers write them.
var classified = []struct {
	name   string
	status int
	body   string
	class  attempt.Outcome
	etype  string
	flags  int
}{
	{"OpenAI 500", 500, `{"error":{"message":"The server had an error while processing your request. Sorry about that!","type":"server_error","param":null,"code":null}}`, attempt.UpstreamError, "server_error", none},
	{"OpenAI 429 rate", 429, `{"error":{"message":"Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, attempt.UpstreamError, "rate_limited", none},
	{"OpenAI 429 quota", 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, attempt.UpstreamError, "rate_limited", none},
	{"OpenAI 401", 401, `{"error":{"message":"Incorrect API key provided: sk-abc***xyz. You can find your API key at https://platform.openai.com/account/api-keys.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, attempt.GatewayError, "gateway_error", badKey},
	{"OpenAI 403 country", 403, `{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}}`, attempt.GatewayError, "gateway_error", none},
	{"OpenAI 404 model", 404, `{"error":{"message":"The model 'gpt-9' does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, attempt.UpstreamError, "upstream_error", none},
	{"OpenAI 400 value", 400, `{"error":{"message":"Invalid value for 'temperature': expected a number between 0 and 2.","type":"invalid_request_error","param":"temperature","code":null}}`, attempt.ClientError, "client_error", none},
	{"OpenAI 400 json word", 400, `{"error":{"message":"'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.","type":"invalid_request_error","param":"messages","code":null}}`, attempt.ClientError, "client_error", none},
	{"OpenAI context", 400, `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, attempt.ClientError, "client_error", ctxLen},
	{"OpenAI context window", 400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`, attempt.ClientError, "client_error", ctxLen},
	{"OpenAI safety", 400, `{"error":{"message":"Your request was rejected as a result of our safety system.","type":"invalid_request_error","param":null,"code":"content_policy_violation"}}`, attempt.ContentFilter, "content_filter", none},
	{"OpenAI moderation", 400, `{"error":{"message":"Your request was rejected.","type":"image_generation_user_error","param":null,"code":"moderation_blocked"}}`, attempt.ContentFilter, "content_filter", none},
	{"OpenAI flagged", 400, `{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}`, attempt.ContentFilter, "content_filter", none},
	{"mentions balance", 400, `{"error":{"message":"Invalid tool arguments: field balance is required; the account balance must be a number","type":"invalid_request_error","param":"tools","code":null}}`, attempt.ClientError, "client_error", none},
	{"OpenAI quotes a field", 400, `{"error":{"message":"Unrecognized request argument supplied: invalid_api_key","type":"invalid_request_error","param":null,"code":null}}`, attempt.ClientError, "client_error", none},
	{"OpenAI quotes a value", 400, `{"error":{"message":"Invalid value: 'incorrect api key provided'. Supported values are: 'auto', 'default', and 'flex'.","type":"invalid_request_error","param":"service_tier","code":"invalid_value"}}`, attempt.ClientError, "client_error", none},
	{"Anthropic quotes a field", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"invalid api key: Extra inputs are not permitted"}}`, attempt.ClientError, "client_error", none},
	{"Anthropic quotes a code", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"model_not_found: Extra inputs are not permitted"}}`, attempt.ClientError, "client_error", none},
	{"balance elsewhere in the body", 400, `{"error":{"message":"bad tool","type":"invalid_request_error"},"echo":"insufficient balance, unknown model, invalid_api_key"}`, attempt.ClientError, "client_error", none},
	{"500 with filter text", 500, `{"error":{"message":"content_filter","code":"content_filter"}}`, attempt.UpstreamError, "server_error", none},

	{"Anthropic 529", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, attempt.UpstreamError, "server_error", none},
	{"Anthropic 401", 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, attempt.GatewayError, "gateway_error", badKey},
	{"Anthropic credit", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}`, attempt.GatewayError, "gateway_error", none},
	{"Anthropic context", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"},"request_id":"req_1"}`, attempt.ClientError, "client_error", ctxLen},
	{"Anthropic context with max_tokens", 400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again\"}}", attempt.ClientError, "client_error", ctxLen},
	{"Anthropic filter", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`, attempt.ContentFilter, "content_filter", none},
	{"Anthropic 413", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, attempt.ClientError, "client_error", none},

	{"Google key", 400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}]`, attempt.GatewayError, "gateway_error", badKey},
	{"Google key by reason", 400, `{"error":{"code":400,"message":"Bad.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, attempt.GatewayError, "gateway_error", badKey},
	{"Google no key", 400, `{"error":{"code":400,"message":"API Key not found. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}`, attempt.GatewayError, "gateway_error", badKey},
	{"Google expired", 400, `{"error":{"code":400,"message":"API key expired. Please renew the API key.","status":"INVALID_ARGUMENT"}}`, attempt.GatewayError, "gateway_error", badKey},
	{"Google context", 400, `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, attempt.ClientError, "client_error", ctxLen},
	{"Google exhausted", 429, `{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}`, attempt.UpstreamError, "rate_limited", none},
	{"Google location", 400, `{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`, attempt.GatewayError, "gateway_error", none},
	{"Google free tier", 400, `{"error":{"code":400,"message":"Gemini API free tier is not available in your country. Please enable billing on your project in Google AI Studio.","status":"FAILED_PRECONDITION"}}`, attempt.GatewayError, "gateway_error", none},
	{"Google leaked", 403, `{"error":{"code":403,"message":"Your API key was reported as leaked. Please use another API key.","status":"PERMISSION_DENIED"}}`, attempt.GatewayError, "gateway_error", badKey},
	{"Google suspended", 403, `{"error":{"code":403,"message":"Permission denied: Consumer 'api_key:x' has been suspended.","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"CONSUMER_SUSPENDED","domain":"googleapis.com","metadata":{"service":"generativelanguage.googleapis.com","consumer":"projects/1"}}]}}`, attempt.GatewayError, "gateway_error", none},
	{"Google overloaded", 503, `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`, attempt.UpstreamError, "server_error", none},
	{"Vertex not allowed", 400, `[{"error":{"code":400,"message":"Project ` + "`p`" + ` is not allowed to use Publisher Model ` + "`projects/p/locations/asia-southeast1/publishers/anthropic/models/claude-3-sonnet@20240229`" + `","status":"FAILED_PRECONDITION"}}]`, attempt.GatewayError, "gateway_error", none},
	{"Vertex not servable", 400, `{"error":{"code":400,"message":"Publisher Model ` + "`projects/p/locations/global/publishers/anthropic/models/claude-sonnet-5`" + ` is not servable in region global.","status":"FAILED_PRECONDITION"}}`, attempt.GatewayError, "gateway_error", none},
	{"Vertex no access", 404, `{"error":{"code":404,"message":"Publisher Model ` + "`projects/p/locations/us-central1/publishers/google/models/gemini-3-pro-preview`" + ` was not found or your project does not have access to it. Please ensure you are using a valid model version. For more information, see: https://cloud.google.com/vertex-ai/generative-ai/docs/learn/model-versions","status":"NOT_FOUND"}}`, attempt.UpstreamError, "upstream_error", none},
	{"Vertex permission", 403, `[{"error":{"code":403,"message":"Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/projects/p/locations/us-central1/endpoints/openapi' (or it may not exist).","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"IAM_PERMISSION_DENIED","domain":"aiplatform.googleapis.com","metadata":{"permission":"aiplatform.endpoints.predict"}}]}}]`, attempt.GatewayError, "gateway_error", none},
	{"Vertex switched off", 403, `[{"error":{"code":403,"message":"Vertex AI API has not been used in project 7 before or it is disabled. Enable it by visiting https://console.developers.google.com/apis/api/aiplatform.googleapis.com/overview?project=7 then retry. If you enabled this API recently, wait a few minutes for the action to propagate to our systems and retry.","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"SERVICE_DISABLED","domain":"googleapis.com"}]}}]`, attempt.GatewayError, "gateway_error", none},
	{"Vertex billing", 403, `[{"error":{"code":403,"message":"This API method requires billing to be enabled. Please enable billing on project #p by visiting https://console.developers.google.com/billing/enable?project=p then retry.","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"BILLING_DISABLED","domain":"googleapis.com"}]}}]`, attempt.GatewayError, "gateway_error", none},
	{"Vertex project", 403, `{"error":{"code":403,"message":"Permission denied on resource project p.","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"CONSUMER_INVALID","domain":"googleapis.com"}]}}`, attempt.GatewayError, "gateway_error", none},
	{"Vertex token", 401, `[{"error":{"code":401,"message":"Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.","status":"UNAUTHENTICATED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"ACCESS_TOKEN_EXPIRED","domain":"googleapis.com"}]}}]`, attempt.GatewayError, "gateway_error", badKey},
	{"Google cancelled", 499, `[{"error":{"code":499,"message":"The operation was cancelled.","errors":[{"message":"The operation was cancelled.","domain":"global","reason":"backendError"}],"status":"CANCELLED"}}]`, attempt.UpstreamError, "upstream_error", none},
	{"Vertex quota", 429, `[{"error":{"code":429,"message":"Quota exceeded for aiplatform.googleapis.com/online_prediction_requests_per_base_model with base model: anthropic-claude-3-5-sonnet. Please submit a quota increase request. https://cloud.google.com/vertex-ai/docs/generative-ai/quotas-genai.","status":"RESOURCE_EXHAUSTED"}}]`, attempt.UpstreamError, "rate_limited", none},
	{"Google argument", 400, `{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"foo\"","status":"INVALID_ARGUMENT"}}`, attempt.ClientError, "client_error", none},

	{"Azure filter", 400, `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true,"severity":"high"}}}}}`, attempt.ContentFilter, "content_filter", none},
	{"Azure filter's field", 400, `{"error":{"message":"Additional properties are not allowed ('content_filter_results' was unexpected) - 'messages.1'","type":"invalid_request_error","param":null,"code":null}}`, attempt.ClientError, "client_error", none},
	{"Azure filter, Foundry", 400, `{"error":{"code":"content_filter","message":"The response was filtered due to the prompt triggering Microsoft's content management policy. Please modify your prompt and retry.","param":"prompt","type":null,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"jailbreak":{"filtered":true,"detected":true}}}}}`, attempt.ContentFilter, "content_filter", none},
	{"Azure 401 place", 401, `{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription and use a correct regional API endpoint for your resource."}}`, attempt.GatewayError, "gateway_error", badKey},
	{"Azure 403 network", 403, `{"error":{"code":"403","message":"Access denied due to Virtual Network/Firewall rules."}}`, attempt.GatewayError, "gateway_error", none},
	{"Azure 403 endpoint", 403, `{"error":{"code":"403","message":"A Virtual Network is configured for this resource. Please use the correct endpoint for making requests. Check https://aka.ms/cogsvc-vnet for more details."}}`, attempt.GatewayError, "gateway_error", none},
	{"Azure operation", 400, `{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model, gpt-5.1-codex. Please choose different model and try again. You can learn more about which models can be used with each operation here: https://go.microsoft.com/fwlink/?linkid=2197993."}}`, attempt.GatewayError, "gateway_error", none},
	{"Azure version of a model", 400, `{"error":{"code":"BadRequest","message":"Model o1 is enabled only for api versions 2024-12-01-preview and later"}}`, attempt.GatewayError, "gateway_error", none},
	{"Azure version", 400, `{"error":{"code":"BadRequest","message":"API version not supported"}}`, attempt.GatewayError, "gateway_error", none},
	{"Azure resource 404", 404, `{"error":{"code":"404","message":"Resource not found"}}`, attempt.UpstreamError, "upstream_error", none},
	{"Azure parameter", 400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, attempt.ClientError, "client_error", none},
	{"Azure 429", 429, `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-05-01-preview have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 9 seconds. Please go here: https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit."}}`, attempt.UpstreamError, "rate_limited", none},
	{"Foundry model", 400, `{"error":{"code":"unavailable_model","message":"Unavailable model: deepseek-r1","details":"Unavailable model: deepseek-r1"}}`, attempt.GatewayError, "gateway_error", none},
	{"Foundry Mistral", 422, `{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted","input":256}]}`, attempt.ClientError, "client_error", none},
	{"Azure filter by inner code", 400, `{"error":{"message":"refused","code":"BadRequest","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, attempt.ContentFilter, "content_filter", none},
	{"Azure deployment 404", 404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again."}}`, attempt.UpstreamError, "upstream_error", none},
	{"Azure deployment 400", 400, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, attempt.GatewayError, "gateway_error", none},
	{"Azure 401", 401, `{"statusCode":401,"message":"Unauthorized. Access token is missing, invalid, audience is incorrect, or have expired."}`, attempt.GatewayError, "gateway_error", badKey},

	{"xAI key", 400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***yz. You can obtain an API key from https://console.x.ai."}`, attempt.GatewayError, "gateway_error", badKey},
	{"xAI filter", 403, `{"code":"The caller does not have permission to execute the specified operation","error":"Content violates usage guidelines. Team: x, API key ID: y, Model: grok-4"}`, attempt.ContentFilter, "content_filter", none},
	{"xAI 403", 403, `{"code":"The caller does not have permission to execute the specified operation","error":"Your team doesn't have any credits."}`, attempt.GatewayError, "gateway_error", none},
	{"xAI context", 400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 200000 tokens."}`, attempt.ClientError, "client_error", ctxLen},

	{"Groq context", 400, `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, attempt.ClientError, "client_error", ctxLen},
	{"Groq decommissioned", 400, "{\"error\":{\"message\":\"The model `llama3-70b-8192` has been decommissioned and is no longer supported.\",\"type\":\"invalid_request_error\",\"code\":\"model_decommissioned\"}}", attempt.GatewayError, "gateway_error", none},
	{"Groq tool", 400, `{"error":{"message":"Failed to call a function. Please adjust your prompt.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"insufficient balance"}}`, attempt.ClientError, "client_error", none},
	{"Groq 413", 413, "{\"error\":{\"message\":\"Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}", attempt.ClientError, "client_error", none},

	{"Together context", 422, "{\"id\":\"o1\",\"error\":{\"message\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}", attempt.ClientError, "client_error", ctxLen},
	{"Together key", 401, `{"error":{"message":"Invalid API key provided. You can find your API key at https://api.together.ai/settings/api-keys.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, attempt.GatewayError, "gateway_error", badKey},
	{"Together credit", 402, `{"error":{"message":"Credit limit exceeded","type":"credit_limit","param":null,"code":null}}`, attempt.GatewayError, "gateway_error", none},

	{"Fireworks context", 400, `{"error":{"object":"error","type":"invalid_request_error","message":"The prompt is too long: 140000, model maximum context length: 131071"}}`, attempt.ClientError, "client_error", ctxLen},
	{"Fireworks 412", 412, `{"error":{"object":"error","type":"precondition_failed","message":"Account x is suspended"}}`, attempt.ClientError, "client_error", none},

	{"DeepSeek balance", 402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, attempt.GatewayError, "gateway_error", none},
	{"DeepSeek balance 400", 400, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, attempt.GatewayError, "gateway_error", none},
	{"DeepSeek auth", 401, `{"error":{"message":"Authentication Fails (no such user)","type":"authentication_error","param":null,"code":"invalid_request_error"}}`, attempt.GatewayError, "gateway_error", badKey},
	{"DeepSeek model", 400, `{"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, attempt.GatewayError, "gateway_error", none},
	{"DeepSeek risk", 400, `{"error":{"message":"Content Exists Risk","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, attempt.ContentFilter, "content_filter", none},

	{"Alibaba inspection", 400, `{"error":{"code":"data_inspection_failed","param":null,"message":"Input data may contain inappropriate content.","type":"data_inspection_failed"},"id":"x","request_id":"x"}`, attempt.ContentFilter, "content_filter", none},
	{"Alibaba native inspection", 400, `{"code":"DataInspectionFailed","message":"Input data may contain inappropriate content.","request_id":"x"}`, attempt.ContentFilter, "content_filter", none},
	{"Alibaba range", 400, `{"error":{"code":"invalid_parameter_error","param":null,"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]","type":"invalid_request_error"}}`, attempt.ClientError, "client_error", ctxLen},
	{"Alibaba arrears", 400, `{"error":{"code":"Arrearage","param":null,"message":"Access denied, please make sure your account is in good standing.","type":"Arrearage"}}`, attempt.GatewayError, "gateway_error", none},
	{"Alibaba key", 401, `{"error":{"message":"Incorrect API key provided. ","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, attempt.GatewayError, "gateway_error", badKey},
	{"Alibaba native key", 400, `{"code":"InvalidApiKey","message":"No such key.","request_id":"x"}`, attempt.GatewayError, "gateway_error", badKey},

	{"ByteDance sensitive", 400, `{"error":{"code":"SensitiveContentDetected","message":"The request failed because the input text may contain sensitive information.","param":"","type":"BadRequest"}}`, attempt.ContentFilter, "content_filter", none},
	{"ByteDance input sensitive", 400, `{"error":{"code":"InputTextSensitiveContentDetected","message":"The request failed.","param":"","type":"BadRequest"}}`, attempt.ContentFilter, "content_filter", none},
	{"ByteDance overdue", 403, `{"error":{"code":"AccountOverdueError","message":"The request failed because your account has an overdue balance.","param":"","type":"Forbidden"}}`, attempt.GatewayError, "gateway_error", none},
	{"ByteDance context", 400, `{"error":{"code":"InvalidParameter","message":"Total tokens of image and text exceed max message tokens","param":"","type":"BadRequest"}}`, attempt.ClientError, "client_error", ctxLen},
	{"ByteDance not open", 404, `{"error":{"code":"ModelNotOpen","message":"Your account has not activated the model.","type":"NotFound"}}`, attempt.UpstreamError, "upstream_error", none},
	{"ByteDance not open 400", 400, `{"error":{"code":"ModelNotOpen","message":"Your account has not activated the model.","type":"BadRequest"}}`, attempt.GatewayError, "gateway_error", none},
	{"ByteDance input length", 400, `{"error":{"code":"InvalidParameter","message":"Input length 99 exceeds the maximum input length 10","type":"BadRequest"}}`, attempt.ClientError, "client_error", ctxLen},

	{"OpenRouter model", 400, `{"error":{"message":"foo/bar is not a valid model ID","code":400}}`, attempt.GatewayError, "gateway_error", none},
	{"unknown model", 400, `{"error":{"message":"Unknown model: m-1"}}`, attempt.GatewayError, "gateway_error", none},
	{"model_not_found 400", 400, `{"error":{"message":"no","code":"model_not_found"}}`, attempt.GatewayError, "gateway_error", none},
	{"deployment words", 400, `{"error":{"message":"The deployment for this resource does not exist"}}`, attempt.GatewayError, "gateway_error", none},
	{"Mistral context", 400, `{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","param":null,"code":"3051"}`, attempt.ClientError, "client_error", ctxLen},
	{"Moonshot filter", 400, `{"error":{"message":"The request was rejected because it was considered high risk","type":"content_filter"}}`, attempt.ContentFilter, "content_filter", none},
	{"Moonshot context", 400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 131072","type":"invalid_request_error"}}`, attempt.ClientError, "client_error", ctxLen},
	{"Bedrock context", 400, `{"message":"Input is too long for requested model."}`, attempt.ClientError, "client_error", ctxLen},
	{"Bedrock context by type", 400, `{"__type":"ValidationException","message":"Input is too long for requested model."}`, attempt.ClientError, "client_error", ctxLen},
	{"Bedrock validation", 400, `{"message":"The text field in the ContentBlock object at messages.0.content.0 is blank."}`, attempt.ClientError, "client_error", none},
	{"Bedrock model id", 400, `{"message":"The provided model identifier is invalid."}`, attempt.GatewayError, "gateway_error", none},
	{"Bedrock on demand", 400, `{"message":"Invocation of model ID anthropic.claude-sonnet-4-5-20250929-v1:0 with on-demand throughput isn\u2019t supported. Retry your request with the ID or ARN of an inference profile that contains this model."}`, attempt.GatewayError, "gateway_error", none},
	{"Bedrock beta", 400, `{"message":"The model returned the following errors: invalid beta flag"}`, attempt.GatewayError, "gateway_error", none},
	{"Bedrock throttling", 429, `{"message":"Too many tokens, please wait before trying again."}`, attempt.UpstreamError, "rate_limited", none},
	{"Bedrock throttling by type", 400, `{"__type":"ThrottlingException","message":"Too many tokens per day, please wait before trying again."}`, attempt.UpstreamError, "rate_limited", none},
	{"AWS too many", 400, `{"__type":"TooManyRequestsException","message":"Too Many Requests"}`, attempt.UpstreamError, "rate_limited", none},
	{"Bedrock account", 400, `{"__type":"ValidationException","message":"Operation not allowed"}`, attempt.GatewayError, "gateway_error", none},
	{"mentions an operation", 400, `{"__type":"ValidationException","message":"messages.1: operation not allowed in a text block"}`, attempt.ClientError, "client_error", none},
	{"Bedrock end of life", 400, `{"__type":"ValidationException","message":"This model version has reached the end of its life. Please refer to the AWS documentation for more details."}`, attempt.GatewayError, "gateway_error", none},
	{"Bedrock legacy", 404, `{"message":"Access denied. This Model is marked by provider as Legacy and you have not been actively using the model in the last 15 days. Please upgrade to an active model on Amazon Bedrock"}`, attempt.UpstreamError, "upstream_error", none},
	{"Bedrock use case", 404, `{"message":"Model use case details have not been submitted for this account. Fill out the Anthropic use case details form before using the model."}`, attempt.UpstreamError, "upstream_error", none},
	{"Bedrock payment", 403, `{"__type":"AccessDeniedException","message":"Model access is denied due to INVALID_PAYMENT_INSTRUMENT:A valid payment instrument must be provided."}`, attempt.GatewayError, "gateway_error", none},
	{"Bedrock denied", 400, `{"__type":"AccessDeniedException","message":"Your account is not authorized to invoke this API operation."}`, attempt.GatewayError, "gateway_error", none},
	{"Bedrock model's stream", 424, `{"__type":"ModelStreamErrorException","message":"The model stream was interrupted.","originalStatusCode":500}`, attempt.UpstreamError, "upstream_error", none},
	{"Bedrock output limit", 400, `{"message":"The maximum tokens you requested exceeds the model limit of 32768. Try again with a maximum tokens value lower than 32768."}`, attempt.ClientError, "client_error", none},
	{"AWS half a signature", 400, `{"__type":"IncompleteSignatureException","message":"Authorization header requires 'Signature' parameter."}`, attempt.GatewayError, "gateway_error", none},
	{"Bedrock not ready", 429, `{"__type":"ModelNotReadyException","message":"The model is not ready for inference."}`, attempt.UpstreamError, "rate_limited", none},
	{"Bedrock model timeout", 408, `{"message":"The request took too long to process. Processing time exceeded the model timeout length."}`, attempt.UpstreamError, "upstream_error", none},
	{"Bedrock model error", 424, `{"__type":"ModelErrorException","message":"The request failed due to an error while processing the model.","originalStatusCode":500}`, attempt.UpstreamError, "upstream_error", none},
	{"Bedrock quota", 400, `{"__type":"com.amazon.bedrock#ServiceQuotaExceededException","message":"Your request exceeds the service quota for your account."}`, attempt.GatewayError, "gateway_error", none},
	{"Bedrock access", 403, `{"Message":"You don't have access to the model with the specified model ID."}`, attempt.GatewayError, "gateway_error", none},
	{"Bedrock API key", 403, `{"Message":"Authentication failed: Please make sure your API Key is valid."}`, attempt.GatewayError, "gateway_error", badKey},
	{"AWS expired", 403, `{"__type":"ExpiredTokenException","message":"The security token included in the request is expired"}`, attempt.GatewayError, "gateway_error", badKey},
	{"AWS unknown client", 403, `{"__type":"UnrecognizedClientException","message":"The security token included in the request is invalid."}`, attempt.GatewayError, "gateway_error", badKey},
	{"AWS token id", 403, `{"__type":"InvalidClientTokenId","message":"No such key."}`, attempt.GatewayError, "gateway_error", badKey},
	{"AWS signature", 403, `{"message":"The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method."}`, attempt.GatewayError, "gateway_error", badKey},
	{"AWS clock", 403, `{"message":"Signature expired: 20260301T120000Z is now earlier than 20260301T121000Z (20260301T121500Z - 5 min.)"}`, attempt.GatewayError, "gateway_error", none},
	{"llama.cpp context", 400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`, attempt.ClientError, "client_error", ctxLen},
	{"vLLM context", 400, `{"object":"error","message":"The decoder prompt (length 9000) is longer than the maximum model length of 8192.","type":"BadRequestError","param":null,"code":400}`, attempt.ClientError, "client_error", ctxLen},
	{"FastAPI not found", 400, `{"detail":"Not Found"}`, attempt.GatewayError, "gateway_error", none},
	{"text not found", 400, "Not Found\n", attempt.GatewayError, "gateway_error", none},
	{"FastAPI 422", 422, `{"detail":[{"loc":["body","x"],"msg":"field required","type":"value_error.missing"}]}`, attempt.ClientError, "client_error", none},

	{"502 HTML", 502, `<html><head><title>502 Bad Gateway</title></head></html>`, attempt.UpstreamError, "server_error", none},
	{"524", 524, `error code: 524`, attempt.UpstreamError, "server_error", none},
	{"empty 429", 429, ``, attempt.UpstreamError, "rate_limited", none},
	{"408", 408, ``, attempt.UpstreamError, "upstream_error", none},
	{"425", 425, ``, attempt.UpstreamError, "upstream_error", none},
	{"405", 405, ``, attempt.GatewayError, "gateway_error", none},
	{"302", 302, ``, attempt.GatewayError, "gateway_error", none},
	{"204", 204, ``, attempt.UpstreamError, "upstream_error", none},
	{"HTML 400", 400, `<html>bad</html>`, attempt.ClientError, "client_error", none},
	{"invalid_api_key 400", 400, `{"error":{"code":"invalid_api_key"}}`, attempt.GatewayError, "gateway_error", badKey},
}

func TestClassify(t *testing.T) {
	for _, tc := range classified {
		e := Classify(tc.status, []byte(tc.body))
		flags := 0
		if e.ContextLength {
			flags |= ctxLen
		}
		if e.InvalidKey {
			flags |= badKey
		}
		status := tc.status
		if tc.etype == "rate_limited" {
			status = http.StatusTooManyRequests
		}
		if e.Class != tc.class || e.ErrorType() != tc.etype || flags != tc.flags || e.Status != status {
			t.Errorf("%s: %s %s status %d flags %b, want %s %s %d %b", tc.name, e.Class, e.ErrorType(), e.Status, flags, tc.class, tc.etype, tc.status, tc.flags)
		}
		if e.Message == "" || strings.Contains(e.Message, "<html") {
			t.Errorf("%s: message %q", tc.name, e.Message)
		}
	}
}

// Every phrase of the tables has a body it is from.
func TestEveryPhraseHasABody(t *testing.T) {
	var all strings.Builder
	for _, tc := range classified {
		b, _ := readErrorBody([]byte(tc.body))
		all.WriteString(strings.ToLower(b.message + "\n" + b.code + "\n" + b.kind + "\n" + b.inner + "\n"))
	}
	for _, table := range [][]string{faultPhrases, limitKinds, filterCodes, filterPhrases, keyPhrases, quotaPhrases, accountPhrases, hostMessages, modelPhrases, contextPhrases} {
		for _, phrase := range table {
			if !strings.Contains(all.String(), phrase) {
				t.Errorf("no body shows %q", phrase)
			}
		}
	}
}

// The type stands in a header, or in that of an event.
func TestClassifyNamed(t *testing.T) {
	for _, tc := range []struct {
		status, want int
		kind         string
		body         string
		class        attempt.Outcome
		badKey       bool
	}{
		{400, 400, "ServiceQuotaExceededException", `{"message":"x"}`, attempt.GatewayError, false},
		{400, 400, "ValidationException:http://internal.amazon.com/coral/com.amazon.bedrock/", `{"message":"x"}`, attempt.ClientError, false},
		{403, 403, "ExpiredTokenException", ``, attempt.GatewayError, true},
		{403, 403, "AccessDeniedException", `{"message":"x"}`, attempt.GatewayError, false},
		{424, 424, "ModelErrorException", `{"message":"x"}`, attempt.UpstreamError, false},
		{0, 429, "throttlingException", `{"message":"x"}`, attempt.UpstreamError, false},
		{0, 503, "serviceUnavailableException", `{"message":"x"}`, attempt.UpstreamError, false},
		{0, 500, "internalServerException", `{"message":"x"}`, attempt.UpstreamError, false},
		{0, 500, "modelStreamErrorException", `{"message":"x","originalStatusCode":400}`, attempt.UpstreamError, false},
		{0, 400, "validationException", `{"message":"x"}`, attempt.ClientError, false},
		{0, 403, "accessDeniedException", `{"message":"x"}`, attempt.GatewayError, false},
		{0, 500, "InternalError", ``, attempt.UpstreamError, false},
	} {
		e := ClassifyNamed(tc.status, tc.kind, []byte(tc.body))
		if e.Class != tc.class || e.Status != tc.want || e.InvalidKey != tc.badKey || e.Message == "" || strings.Contains(e.Type, ":") {
			t.Errorf("%d %s: %+v", tc.status, tc.kind, e)
		}
	}
}

// Waits that stood in the body alone were lost: keys cooled for the five seconds of those that name none.
func TestWaitsThatOnlyTheBodyNames(t *testing.T) {
	const azure, google = `{"error":{"code":"429","message":%q}}`, `{"error":{"code":429,"message":"Resource has been exhausted.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":%q}]}}`
	for _, tc := range []struct {
		status       int
		format, text string
		want         time.Duration
	}{
		{429, azure, "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-05-01-preview have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 9 seconds. Please go here", 9 * time.Second},
		{429, azure, "Please retry after 86400 seconds.", 24 * time.Hour},
		{429, azure, "Please retry after 1 second.", time.Second},
		{429, azure, "Please retry after 20 milliseconds.", 20 * time.Millisecond},
		{429, azure, "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000. Please try again in 2s.", 2 * time.Second},
		{429, azure, "Please try again in 6m0s. Visit", 6 * time.Minute},
		{429, azure, "Please try again in 1m26.4s.", 86400 * time.Millisecond},
		{429, azure, "Please try again in 150ms.", 150 * time.Millisecond},
		{429, azure, "Your quota will reset after 1h2m3s.", time.Hour + 2*time.Minute + 3*time.Second},
		{429, azure, "Please retry in 26.5s.", 26500 * time.Millisecond},
		{503, azure, "Please try again in 3 minutes", 3 * time.Minute},
		{429, azure, "Please retry after 99999999999999999999 hours", maxRetryAfter},
		{429, azure, "Please try again in 5 languages.", 0},
		{429, azure, "Please try again later.", 0},
		{500, azure, "Please retry after 9 seconds.", 0},
		{400, azure, "Please retry after 9 seconds.", 0},
		{429, google, "45.25s", 45250 * time.Millisecond},
		{429, google, "39s", 39 * time.Second},
		{429, google, "0s", 0},
		{429, google, "soon", 0},
		{429, google, "-3s", 0},
	} {
		body := fmt.Sprintf(tc.format, tc.text)
		if got := Classify(tc.status, []byte(body)).RetryAfter; got != tc.want {
			t.Errorf("%d %s: %s, want %s", tc.status, body, got, tc.want)
		}
		if tc.status == 429 {
			if e := InBand([]byte(body)); e == nil || e.RetryAfter != tc.want {
				t.Errorf("in band %s: %+v", body, e)
			}
		}
	}
}

func TestInBand(t *testing.T) {
	for _, tc := range []struct {
		body   string
		status int // 0: no error in it
		class  attempt.Outcome
	}{
		{`{"id":"1","choices":[{"index":0,"delta":{}}]}`, 0, ""},
		{`{"error":null,"choices":[]}`, 0, ""},
		{`{"type":"chat","message":"fine"}`, 0, ""},
		{`[1]`, 0, ""}, {``, 0, ""}, {`"x"`, 0, ""},
		{`{"error":{"message":"boom"}}`, 500, attempt.UpstreamError},
		{`{"error":"boom"}`, 500, attempt.UpstreamError},
		{`{"error":{"message":"Provider returned error","code":502}}`, 502, attempt.UpstreamError},
		{`{"error":{"message":"slow down","code":"429"}}`, 429, attempt.UpstreamError},
		{`{"error":{"message":"slow down","status":429}}`, 429, attempt.UpstreamError},
		{`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 500, attempt.UpstreamError},
		{`{"type":"error","error":{"type":"authentication_error","message":"no"}}`, 401, attempt.GatewayError},
		{`{"type":"error","error":{"type":"permission_error","message":"no"}}`, 403, attempt.GatewayError},
		{`{"error":{"type":"rate_limit_error","message":"no"}}`, 429, attempt.UpstreamError},
		{`{"error":{"type":"not_found_error","message":"no"}}`, 404, attempt.UpstreamError},
		{`{"error":{"type":"invalid_request_error","message":"no"}}`, 400, attempt.ClientError},
		{`{"error":{"status":"RESOURCE_EXHAUSTED","message":"no"}}`, 429, attempt.UpstreamError},
		{`{"object":"error","message":"bad","type":"BadRequestError","code":400}`, 400, attempt.ClientError},
		{`{"error":{"code":"content_filter","message":"filtered"}}`, 400, attempt.ContentFilter},
		{`{"error":{"code":"invalid_api_key","type":"invalid_request_error","message":"x"}}`, 401, attempt.GatewayError},
		{`{"__type":"InternalServerException","message":"no"}`, 500, attempt.UpstreamError},
		{`{"__type":"ThrottlingException","message":"no"}`, 429, attempt.UpstreamError},
		{`[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]`, 503, attempt.UpstreamError},
	} {
		e := InBand([]byte(tc.body))
		if tc.status == 0 {
			if e != nil {
				t.Errorf("%s: %v, want no error", tc.body, e)
			}
			continue
		}
		if e == nil || e.Status != tc.status || e.Class != tc.class {
			t.Errorf("%s: %+v, want %d %s", tc.body, e, tc.status, tc.class)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		header, ms string
		want       time.Duration
		ok         bool
	}{
		{"", "", 0, false},
		{"3", "", 3 * time.Second, true},
		{" 1.5 ", "", 1500 * time.Millisecond, true},
		{"0", "", 0, true},
		{"-1", "", 0, false},
		{"soon", "", 0, false},
		{"NaN", "", 0, false},
		{"1e300", "", maxRetryAfter, true},
		{"Sun, 01 Mar 2026 12:00:07 GMT", "", 7 * time.Second, true},
		{"Sun, 01 Mar 2026 11:00:00 GMT", "", 0, true},
		{"3", "250", 250 * time.Millisecond, true},
		{"3", "x", 3 * time.Second, true},
	} {
		h := http.Header{}
		h.Set("Retry-After", tc.header)
		h.Set("retry-after-ms", tc.ms)
		if got, ok := RetryAfter(h.Get, now); got != tc.want || ok != tc.ok {
			t.Errorf("%q %q: %v %v, want %v %v", tc.header, tc.ms, got, ok, tc.want, tc.ok)
		}
	}
}

func TestRetryableAndFinal(t *testing.T) {
	for class, want := range map[attempt.Outcome]struct {
		retryable bool
		status    int
		kind      string
	}{
		attempt.GatewayError: {true, 502, "upstream_error"}, attempt.UpstreamError: {true, 502, "upstream_error"},
		attempt.NetworkError: {true, 502, "upstream_error"}, attempt.UpstreamTimeout: {true, 504, "timeout_error"},
		attempt.ClientError: {false, 422, "invalid_request_error"}, attempt.ContentFilter: {false, 400, "invalid_request_error"},
		attempt.Canceled: {false, 502, "upstream_error"},
	} {
		e := &Error{Class: class, Status: 422, Message: "m"}
		if final := e.Final(); e.Retryable() != want.retryable || final.Status != want.status || final.Type != want.kind {
			t.Errorf("%s: retryable %v, final %+v", class, e.Retryable(), final)
		}
	}
	long := Classify(400, []byte(`{"error":{"message":"`+strings.Repeat("é", 3000)+`"}}`))
	if n := len(long.Message); n > maxMessage || n < maxMessage-3 {
		t.Errorf("message of %d bytes", n)
	}
}

func TestEnvelope(t *testing.T) {
	e := &APIError{Status: 400, Type: "invalid_request_error", Code: "invalid_value", Param: "messages[0].role", Message: "say \"role\"\n"}
	got := e.AppendOpenAI(nil, []byte(`,"metadata":{"a":1}`))
	var v struct {
		Error    struct{ Message, Type, Param, Code *string }
		Metadata map[string]int
	}
	if err := json.Unmarshal(got, &v); err != nil || *v.Error.Message != e.Message || *v.Error.Code != e.Code || v.Metadata["a"] != 1 {
		t.Fatalf("%s: %v", got, err)
	}
	if got := string((&APIError{Message: "m", Type: "t"}).AppendOpenAI(nil, nil)); got != `{"error":{"message":"m","type":"t","param":null,"code":null}}` {
		t.Fatal(got)
	}
}

// FuzzClassify: whatever an upstream refuses with has a class, words that can be shown, and a wait that
// can be kept.
func FuzzClassify(f *testing.F) {
	for _, row := range classified {
		f.Add(row.status, []byte(row.body))
	}
	f.Add(429, []byte(`{"error":{"message":"retry after 1e9 seconds","details":[{"retryDelay":"-1s"},{"retryDelay":"NaNs"}]}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		for _, e := range []*Error{Classify(status, body), InBand(body)} {
			switch {
			case e == nil:
			case e.Class == "" || e.Message == "" || len(e.Message) > maxMessage:
				t.Fatalf("%d %q: %+v", status, body, e)
			case e.RetryAfter < 0 || e.RetryAfter > maxRetryAfter:
				t.Fatalf("%d %q: wait %s", status, body, e.RetryAfter)
			case e.InvalidKey && e.Class != attempt.GatewayError, e.ContextLength && e.Class != attempt.ClientError:
				t.Fatalf("%d %q: %+v", status, body, e)
			}
		}
	})
}
