"""The names of the dictionaries that llama-cpp-python's methods take and return, for annotations.

All of them are dictionaries of the shapes that OpenAI's interface has.
"""

from __future__ import annotations

from typing import Any, Literal

JsonType = None | int | str | bool | list[Any] | dict[str, Any]
ChatCompletionToolChoiceOption = Literal["none", "auto", "required"] | dict[str, Any]
ChatCompletionFunctionCallOption = Literal["none", "auto"] | dict[str, Any]
EmbeddingUsage = Embedding = CreateEmbeddingResponse = CompletionLogprobs = CompletionChoice = dict[str, Any]
CompletionUsage = CreateCompletionResponse = CreateCompletionStreamResponse = dict[str, Any]
Completion = CompletionChunk = dict[str, Any]
ChatCompletionResponseFunctionCall = ChatCompletionResponseMessage = ChatCompletionFunction = dict[str, Any]
ChatCompletionTopLogprobToken = ChatCompletionLogprobToken = ChatCompletionLogprobs = dict[str, Any]
ChatCompletionResponseChoice = CreateChatCompletionResponse = ChatCompletion = ChatCompletionChunk = dict[str, Any]
ChatCompletionMessageToolCall = ChatCompletionMessageToolCalls = ChatCompletionMessageToolCallChunk = dict[str, Any]
ChatCompletionStreamResponseDelta = ChatCompletionStreamResponseChoice = dict[str, Any]
CreateChatCompletionStreamResponse = ChatCompletionFunctions = ChatCompletionFunctionCall = dict[str, Any]
ChatCompletionRequestResponseFormat = ChatCompletionRequestMessageContentPart = dict[str, Any]
ChatCompletionRequestMessageContentPartText = ChatCompletionRequestMessageContentPartImage = dict[str, Any]
ChatCompletionRequestSystemMessage = ChatCompletionRequestUserMessage = dict[str, Any]
ChatCompletionRequestAssistantMessage = ChatCompletionRequestToolMessage = dict[str, Any]
ChatCompletionRequestAssistantMessageFunctionCall = ChatCompletionRequestFunctionMessage = dict[str, Any]
ChatCompletionRequestMessage = ChatCompletionRequestFunctionCall = dict[str, Any]
ChatCompletionRequestFunctionCallOption = dict[str, Any]
ChatCompletionFunctionParameters = ChatCompletionToolFunction = ChatCompletionTool = dict[str, Any]
ChatCompletionNamedToolChoice = ChatCompletionNamedToolChoiceFunction = dict[str, Any]
ChatCompletionChoice = ChatCompletionChunkChoice = ChatCompletionChunkDelta = dict[str, Any]
ChatCompletionChunkDeltaEmpty = ChatCompletionMessage = ChatCompletionMessageToolCallChunkFunction = dict[str, Any]
ChatCompletionMessageToolCallFunction = ChatCompletionResponseFunction = ChatCompletionStreamResponse = dict[str, Any]
ChatCompletionRequestMessageContentPartImageImageUrl = ChatCompletionStreamResponseDeltaEmpty = dict[str, Any]
ChatCompletionStreamResponseDeltaFunctionCall = EmbeddingData = dict[str, Any]
__all__ = [_name for _name in list(globals()) if _name[0].isupper() and _name not in ("Any", "Literal")]
