#!/usr/bin/env python3
"""Drives a running server with the real `openai` package and checks what comes back; no check depends on the model.

    openai_client.py --base-url http://127.0.0.1:8080/v1 --model NAME [--api-key KEY]

Prints a line for each check, and exits with 1 if one failed.
"""
import argparse
import asyncio
import json
import sys
import time
import traceback

import openai

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--base-url", required=True)
parser.add_argument("--model", required=True)
parser.add_argument("--api-key", default="none")
options = parser.parse_args()

client = openai.OpenAI(base_url=options.base_url, api_key=options.api_key, max_retries=0, timeout=120)
MODEL = options.model
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Count from one to twenty."}]
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def chat(**more):
    return client.chat.completions.create(**{"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": 8, **more})


def streamed(stream):
    """The text of the first choice, its reason, and the usage."""
    text, reason, usage = "", None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            if choice.index == 0:
                text += choice.delta.content or ""
                reason = choice.finish_reason or reason
    return text, reason, usage


@check
def models():
    listed = client.models.list().data
    assert [m.id for m in listed] == [MODEL], listed
    assert client.models.retrieve(MODEL).id == MODEL


@check
def chat_whole():
    answer = chat()
    choice = answer.choices[0]
    assert answer.object == "chat.completion" and answer.model == MODEL and len(answer.choices) == 1
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in ("length", "stop")
    usage = answer.usage
    assert usage.prompt_tokens > 5 and 1 <= usage.completion_tokens <= 8
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens >= 0


@check
def chat_streamed():
    whole = chat()
    text, reason, usage = streamed(chat(stream=True, stream_options={"include_usage": True}))
    assert text == whole.choices[0].message.content, (text, whole)
    assert reason == whole.choices[0].finish_reason
    assert usage.completion_tokens == whole.usage.completion_tokens and usage.prompt_tokens == whole.usage.prompt_tokens
    assert streamed(chat(stream=True))[2] is None


@check
def lengths():
    assert chat(max_tokens=3, extra_body={"ignore_eos": True}).usage.completion_tokens == 3
    answer = chat(max_tokens=openai.NOT_GIVEN, max_completion_tokens=2, extra_body={"ignore_eos": True})
    assert answer.usage.completion_tokens == 2 and answer.choices[0].finish_reason == "length"


@check
def stop_strings():
    text = chat(max_tokens=16).choices[0].message.content
    assert len(text) >= 4, text
    stop = text[2:4]
    for answer in (chat(max_tokens=16, stop=stop), chat(max_tokens=16, stop=["never to be seen", stop])):
        assert answer.choices[0].message.content == text[: text.index(stop)], (text, stop, answer)
        assert answer.choices[0].finish_reason == "stop"
    assert streamed(chat(max_tokens=16, stop=stop, stream=True))[0] == text[: text.index(stop)]


@check
def choices_and_seeds():
    def ask(seed):
        answer = chat(n=3, seed=seed, temperature=2, max_tokens=12)
        assert [c.index for c in answer.choices] == [0, 1, 2]
        return [c.message.content for c in answer.choices]

    assert ask(1) == ask(1)
    assert ask(1) != ask(2)
    assert len(set(ask(1))) > 1


@check
def logprobs():
    answer = chat(logprobs=True, top_logprobs=3)
    content = answer.choices[0].logprobs.content
    assert 1 <= len(content) <= answer.usage.completion_tokens
    for entry in content:
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].token == entry.token, "the greedy choice is the most probable"
        assert bytes(entry.bytes).decode(errors="replace") == entry.token
    assert b"".join(bytes(e.bytes) for e in content).decode(errors="replace").startswith(answer.choices[0].message.content)


@check
def completions():
    def text(**more):
        return client.completions.create(**{"model": MODEL, "prompt": "One, two, three,", "temperature": 0, "max_tokens": 6, **more})

    whole = text()
    assert whole.object == "text_completion" and whole.choices[0].text
    pieces = "".join(c.choices[0].text for c in text(stream=True) if c.choices)
    assert pieces == whole.choices[0].text
    assert text(echo=True).choices[0].text == "One, two, three," + whole.choices[0].text
    two = text(prompt=["One, two, three,", "A, b, c,"], n=2)
    assert [c.index for c in two.choices] == [0, 1, 2, 3] and two.choices[0].text == two.choices[1].text == whole.choices[0].text
    scored = text(echo=True, logprobs=1, max_tokens=1).choices[0].logprobs
    assert scored.token_logprobs[0] is None and all(p <= 0 for p in scored.token_logprobs[1:])
    assert "".join(scored.tokens).startswith("One, two, three,"), scored.tokens
    assert len(scored.tokens) == len(scored.token_logprobs) == len(scored.text_offset) == len(scored.top_logprobs)


@check
def content_parts_and_extras():
    parts = [{"role": "user", "content": [{"type": "text", "text": "Say"}, {"type": "text", "text": "yes."}]}]
    extras = {"top_k": 40, "min_p": 0.05, "repeat_penalty": 1.1, "chat_template_kwargs": {"enable_thinking": False}, "cache_prompt": True}
    assert chat(messages=parts, temperature=0.7, seed=1, extra_body=extras, user="me").choices[0].finish_reason in ("length", "stop")
    banned = chat(logprobs=True, top_logprobs=0).choices[0].logprobs.content[0].token
    first = chat(max_tokens=1).choices[0].message.content
    assert first == banned


def refused(kind, param, call):
    try:
        call()
    except kind as error:
        assert error.param == param, (error.param, error)
        assert error.message
        return error
    raise AssertionError(f"not refused: {param}")


@check
def errors():
    bad, tool = openai.BadRequestError, {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    refused(bad, "temperature", lambda: chat(temperature=-1))
    refused(bad, "n", lambda: chat(n=10**6))
    refused(bad, "tool_choice", lambda: chat(tools=[tool], tool_choice="maybe"))
    refused(bad, "tools[0].function.parameters", lambda: chat(tools=[strict({"not": {}})]))
    refused(bad, "response_format.type", lambda: chat(response_format={"type": "yaml"}))
    refused(bad, "messages", lambda: chat(messages=[]))
    refused(bad, "messages[0].role", lambda: chat(messages=[{"role": "wizard", "content": "x"}]))
    refused(bad, "no_such_field", lambda: chat(extra_body={"no_such_field": 1}))
    assert refused(openai.NotFoundError, "model", lambda: chat(model="no-such-model")).code == "model_not_found"
    long = [{"role": "user", "content": "word " * 400_000}]
    error = refused(openai.APIStatusError, "messages", lambda: chat(messages=long))
    assert error.code == "context_length_exceeded" and error.status_code == 413
    if options.api_key != "none":
        wrong = client.with_options(api_key="wrong")
        assert refused(openai.AuthenticationError, None, wrong.models.list).code == "invalid_api_key"


@check
def held_to_a_schema():
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "n": {"type": "integer", "minimum": 3, "maximum": 4}},
              "required": ["city", "n"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": schema}}
    answer = json.loads(chat(response_format=form, max_tokens=60).choices[0].message.content)
    assert answer["city"] in ("Paris", "Rome") and answer["n"] in (3, 4) and len(answer) == 2, answer


def strict(city):
    parameters = {"type": "object", "properties": {"city": city, "days": {"type": "integer", "minimum": 1, "maximum": 3}},
                  "required": ["city", "days"], "additionalProperties": False}
    return {"type": "function", "function": {"name": "weather", "description": "The weather.", "strict": True, "parameters": parameters}}


def is_call(name, arguments):
    arguments = json.loads(arguments)
    assert name == "weather" and arguments["city"] in ("Paris", "Rome") and arguments["days"] in (1, 2, 3) and len(arguments) == 2, arguments


@check
def forced_calls():
    tools = [strict({"enum": ["Paris", "Rome"]})]
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        forced = {"tools": tools, "tool_choice": choice, "parallel_tool_calls": False, "max_tokens": 400}
        answer = chat(**forced).choices[0]
        assert answer.finish_reason == "tool_calls" and len(answer.message.tool_calls) == 1, answer
        is_call(answer.message.tool_calls[0].function.name, answer.message.tool_calls[0].function.arguments)
        with client.chat.completions.stream(model=MODEL, messages=MESSAGES, temperature=0, **forced) as stream:
            for _ in stream:
                pass
            message = stream.get_final_completion().choices[0].message
        is_call(message.tool_calls[0].function.name, message.tool_calls[0].function.arguments)


def respond(**more):
    return client.responses.create(**{"model": MODEL, "input": "Count from one to twenty.", "temperature": 0, "max_output_tokens": 8, **more})


@check
def responses_whole_and_streamed():
    whole = respond(instructions="Be brief.")
    assert whole.object == "response" and whole.status in ("completed", "incomplete") and whole.output_text
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
    events = list(respond(instructions="Be brief.", stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert events[0].type == "response.created" and events[-1].type == f"response.{whole.status}"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text
    # The conversation is sent again with each turn, as nothing is stored.
    turn = [{"role": "user", "content": "Hi"}, *[item.model_dump() for item in whole.output], {"role": "user", "content": "Go on."}]
    assert respond(input=turn).output_text is not None


@check
def responses_call_functions():
    tool = {"type": "function", **strict({"enum": ["Paris", "Rome"]})["function"]}
    answer = respond(tools=[tool], tool_choice="required", parallel_tool_calls=False, max_output_tokens=400)
    call = answer.output[-1]
    assert answer.status == "completed" and call.type == "function_call", answer
    is_call(call.name, call.arguments)
    events = list(respond(tools=[tool], tool_choice="required", parallel_tool_calls=False, max_output_tokens=400, stream=True))
    done = [e for e in events if e.type == "response.function_call_arguments.done"]
    is_call(done[0].name, done[0].arguments)
    turn = [{"role": "user", "content": "Weather?"}, call.model_dump(),
            {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}]
    assert respond(input=turn, tools=[tool], tool_choice="none").output[-1].type == "message"


@check
def responses_held_to_a_schema():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 4}}, "required": ["n"],
              "additionalProperties": False}
    form = {"format": {"type": "json_schema", "name": "n", "strict": True, "schema": schema}}
    assert json.loads(respond(text=form, max_output_tokens=60).output_text)["n"] in (3, 4)


@check
def responses_refuse_what_needs_memory():
    for param, value in (("store", True), ("previous_response_id", "resp_1"), ("background", True)):
        refused(openai.BadRequestError, param, lambda: respond(**{param: value}))


@check
def leaving_early():
    for _ in range(3):
        stream = chat(stream=True, max_tokens=200)
        next(iter(stream))
        stream.close()
    assert chat(max_tokens=1).choices


@check
def many_at_once():
    async def all_of_them():
        several = openai.AsyncOpenAI(base_url=options.base_url, api_key=options.api_key, max_retries=0, timeout=300)

        def ask(i):
            messages = [{"role": "user", "content": f"Number {i}"}]
            return several.chat.completions.create(model=MODEL, messages=messages, temperature=0, max_tokens=8)

        together = await asyncio.gather(*(ask(i) for i in range(8)))
        alone = [await ask(i) for i in range(8)]
        await several.close()
        return together, alone

    together, alone = asyncio.run(all_of_them())
    assert [a.choices[0].message.content for a in together] == [a.choices[0].message.content for a in alone]


def main():
    failures = 0
    for function in CHECKS:
        begin = time.monotonic()
        try:
            function()
            outcome = "ok"
        except Exception:
            failures += 1
            outcome = "FAILED"
            traceback.print_exc()
        print(f"{function.__name__:28} {outcome:7} {time.monotonic() - begin:6.2f} s", flush=True)
    print(f"openai {openai.__version__}: {len(CHECKS) - failures} of {len(CHECKS)} checks passed")
    sys.exit(1 if failures else 0)


main()
