#!/usr/bin/env python3
"""What transformers makes of small templates that use everything which published ones do.

    pip install transformers==5.24.0 jinja2==3.1.6
    make_templates.py templates.json

{"messages", "tools", "cases": [{"source", "messages" (if others), "extra", "text" | "error"}]}: render_jinja_template(...) with bos_token and eos_token given.
"""
import json, os, sys
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers.utils.chat_template_utils import render_jinja_template

U, A, S = (lambda c: {"role": "user", "content": c}), (lambda c, **k: {"role": "assistant", "content": c, **k}), (lambda c: {"role": "system", "content": c})
CALL = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": [1.5, None, True, "é\"\\\n\u0001😀"], "z": {}, "e": []}}}]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d <b> & 'q'", "parameters": {"type": "object", "properties": {"x": {"type": ["string", "null"]}, "y": {"enum": [1, 2.0, 1e20, 1e-7]}}, "required": []}}}]
CHAT = [S(" sys "), U("Hi\n"), A("yo", tool_calls=CALL), {"role": "tool", "name": "f", "content": "r"}, U([{"type": "text", "text": "t1"}, {"type": "image"}, {"type": "text", "text": "t2"}])]

# Expressions, each rendered by itself.
EXPRESSIONS = """messages[0].content | trim
messages[0]['content'].strip()
messages | length
messages[-1]['content'] | length
messages[1:] | length
messages[::-1][0].role
messages[:2] | map(attribute='role') | list
messages | map(attribute='role') | join(', ')
messages | selectattr('role', 'equalto', 'user') | list | length
messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | list
messages | selectattr('tool_calls', 'defined') | list | length
messages[2].tool_calls | tojson
messages[2].tool_calls[0].function.arguments | tojson(indent=2)
messages[2].tool_calls[0].function.arguments | tojson(indent=4, ensure_ascii=true)
messages[2].tool_calls[0].function.arguments | tojson(separators=(',', ':'))
messages[2].tool_calls[0].function.arguments | tojson(sort_keys=true)
messages[2].tool_calls[0].function.arguments | tojson(true)
messages[2].tool_calls[0].function.arguments | string
messages[2].tool_calls[0].function.arguments
messages[2].tool_calls[0].function.arguments.items() | list
messages[2].tool_calls[0].function.arguments.keys() | list
messages[2].tool_calls[0].function.arguments | items | list
messages[2].tool_calls[0].function.arguments | dictsort
messages[4].content
messages[4].content ~ 'x'
messages[4].content | string | length
tools | tojson
tools | tojson(indent=2)
tools[0].function.parameters.properties.y.enum
tools
none
true
false
true ~ none ~ 1 ~ 1.0 ~ 'a'
[none, true, 1.0, 'a', "it's", 'q"q', 'both\\'"']
{'a': 1, 'b': [1, 2]}
(1, 2)
(1,)
1e16
0.1 + 0.2
10 / 4
7 // 2
-7 // 2
-7 % 3
2 ** 10
10 / 5
1 == 1.0
'a' < 'b'
'a' in 'abc'
'a' not in ['b']
1 in [1, 2]
'role' in messages[0]
'x' in messages[0]
not messages
undefined_thing
undefined_thing is defined
undefined_thing is none
undefined_thing | default('d')
'' | default('d')
'' | default('d', true)
none | default('d')
undefined_thing or 'x'
undefined_thing.x is defined
messages[0].nothing
messages[0].nothing is defined
messages[0].nothing is not none
messages[99] is defined
messages[0] is mapping
messages is mapping
messages is iterable
messages is sequence
'abc' is sequence
'abc' is iterable
'abc' is string
messages[0] is sequence
messages[0] is iterable
1 is number
1 is integer
1.0 is float
true is boolean
true is integer
none is none
1 is odd
2 is even
4 is divisibleby 2
'a' is eq 'a'
1 is gt 0
true is true
1 is true
'A' is upper
'a' is lower
'a' is in 'abc'
messages[0].content is defined and messages[0].content is string
'Hello World'.lower()
'hello world'.title()
'hello'.capitalize()
'a,b,,c'.split(',')
'a  b c'.split()
'a,b,c'.split(',', 1)
'a,b,c'.rsplit(',', 1)
'</think>x</think>y'.split('</think>')[-1]
'xxhixx'.strip('x')
'xxhixx'.lstrip('x')
'xxhixx'.rstrip('x')
'\\n\\nhi'.lstrip('\\n')
'hello'.replace('l', 'L')
'hello'.replace('l', 'L', 1)
'hello'.startswith('he')
'hello'.endswith(('x', 'lo'))
'hello'.find('l')
'hello'.find('z')
'hello'.count('l')
'hello'.index('l')
'abc'.upper()
'12'.isdigit()
'a b c'.rsplit()
'hello'.rindex('l')
'hello'.removeprefix('he')
'hello'.removesuffix('he')
'a-b-c'.partition('-') | list
'a-b-c'.rpartition('-') | list
'abc'.partition('-')[0]
'a\\nb'.splitlines()
messages[0].get('content').split() | length
1e300
-1e-300
[1e22, {'x': 1e16}]
'ab' * 3
'hello'[1:3]
'hello'[::-1]
'hello'[-1]
'%s-%d' % ('a', 3)
'%s' | format('x')
'{} {}'.format('a', 1)
'{a}'.format(a=2)
', '.join(['a', 'b'])
'-'.join(messages | map(attribute='role'))
['a'] + ['b']
'abc' | list
'abc' | first
[3, 1, 2] | sort
[3, 1, 2] | last
[3, 1, 2] | max
[3, 1, 2] | min
[1, 2, 3] | sum
[1, 1, 2] | unique | list
['b', 'a'] | sort | join
[1, 2, 3, 4, 5] | batch(2) | list
'hello world' | title
'hello' | upper
'HELLO' | lower
'hello' | capitalize
'a-b' | replace('-', '+')
'  x  ' | trim
'xxaxx' | trim('x')
'a\\nb' | indent
'a\\nb' | indent(2, true)
'abc' | reverse
[1, 2] | reverse | list
'3' | int + 1
'3.5' | float
3.7 | int
3.456 | round(1)
3.5 | round
-3 | abs
'<a>&' | e
'<a>' | safe
'a b c' | wordcount
range(3) | list
range(1, 10, 3) | list
range(5, 0, -2) | list
dict(a=1, b=2)
dict(a=1).get('a')
dict(a=1).get('b')
dict(a=1).get('b', 'z')
namespace(a=1).a
'yes' if messages else 'no'
'yes' if false
messages[0].content if messages[0].role == 'system' else ''
(messages | first).role
([1] + ['a']) | tojson
([1] + [2]) | string
([1] + [2]) ~ 'x'
[1] + [2] + [3] == [1, 2, 3]
([1] + [2])[1]
([1] + [2]) | length
bos_token + eos_token
bos_token ~ messages | length
messages[1].content + messages[0].content
-1 | string
1 | string + 'a'
[1, [2, 3]] | string
'é' | length
'😀x'[0]
'ß'.upper()
'a' 'b'
'abc' | select('equalto', 'b') | list
[1, none, 2] | select | list
[{'a': 1}, {'a': 2}] | sum(attribute='a')
[{'a': 2}, {'a': 1}] | sort(attribute='a')
[{'a': 'x'}, {'a': 'y'}, {'a': 'x'}] | groupby('a') | list | length
messages | groupby('role') | map(attribute='grouper') | list
'a' if not undefined_thing else 'b'
messages[0]['content'][:3]
messages[0].get('content')
messages[0].get('nope')
messages[0].get('nope', [])
messages[0].items() | list
messages[2].tool_calls[0]['function']['name']
add_generation_prompt
enable_thinking is defined and enable_thinking is false
documents is none
tools is not none and tools | length > 0""".split("\n")

ERRORS = """messages[0].nothing.more
undefined_thing.x.y
messages[4].content.startswith('a')
messages[4].content + 'x'
'x' + messages[4].content
'x' + 1
1 + none
raise_exception('no ' ~ messages[0].role)
nofunction()
'a' | nofilter
'a' is notest
messages[0].content.nomethod()
undefined_thing + 'x'
5[0].x.y""".split("\n")

# Whole templates.
TEMPLATES = [
    "{% for m in messages %}\n    {% if m.role == 'user' %}\n{{ m.role }}\n    {% endif %}\n{% endfor %}\nend\n",
    "{%- for m in messages -%}\n  {{- loop.index }}/{{ loop.index0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }}/{{ loop.revindex }} \n{%- endfor %}\n\n",
    "{% for m in messages if m.role != 'tool' %}{{ loop.index }}{{ m.role }},{% else %}none{% endfor %}",
    "{% for m in [] %}x{% else %}empty{% endfor %}",
    "{% for m in messages %}{% if loop.index > 3 %}{% break %}{% endif %}{% if m.role == 'user' %}{% continue %}{% endif %}{{ m.role }};{% endfor %}",
    "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}>{{ m.role }}>{{ loop.nextitem.role if loop.nextitem is defined else '-' }} {% endfor %}",
    "{% for m in messages %}{{ loop.cycle('a', 'b') }}{% endfor %}{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}",
    "{% set ns = namespace(n=0, s='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set ns.s = ns.s ~ m.role[0] %}{% endfor %}{{ ns.n }}{{ ns.s }}",
    "{% set x = 1 %}{% for m in messages %}{% set x = 2 %}{% endfor %}{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}",
    "{% macro show(m, sep=': ') %}{{ m.role }}{{ sep }}{{ m.content if m.content is string }}{% endmacro %}{% for m in messages %}{{ show(m) }}|{{ show(m, sep='=') }}\n{% endfor %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}{% set r = f(2) %}{{ r | length }}",
    "{% set body %}a{{ bos_token }}b{% endset %}[{{ body }}]{% set a, b = 1, 2 %}{{ a + b }}",
    "{% generation %}{% set g = 1 %}{{ messages[1].content }}{% endgeneration %}{{ g is defined }}",
    "{%- if tools %}\n    {{- '<t>' }}\n    {%- for tool in tools %}\n        {{- '\\n' }}\n        {{- tool | tojson }}\n    {%- endfor %}\n{%- else %}x{%- endif %}\n",
    "{# comment #}\n   {# another #}   \nx\n  {#- trimmed -#}  \ny",
    "   {% if true %}   \n  a  \n   {% endif %}   \nb {%+ if true %} c{% endif +%}\nd",
    "{% raw %}{{ not }} {% rendered %}{% endraw %}{{ '{{' }}{{ \"%}\" }}",
    "a\n\n\n{{ 'b' }}\n\n",
    "{{ 'tab\\tnl\\n\\u00e9\\x41 \\'q\\' \"d\"' }}",
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content | trim %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ system }}|{{ rest | length }}",
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% elif p['type'] == 'image' %}<i>{% endif %}{% endfor %}{% endif %}{% endfor %}",
    "{% for m in messages %}{% for t in m.tool_calls or [] %}{{ t.function.name }}({% for k, v in t.function.arguments | items %}{{ k }}={{ v if v is string else v | tojson }}{% if not loop.last %}, {% endif %}{% endfor %}){% endfor %}{% endfor %}",
    "{% set roles = {'user': 'U', 'assistant': 'A'} %}{% for m in messages %}{{ roles[m.role] if m.role in roles else roles.get(m.role, '?') }}{% endfor %}",
    "{% filter upper %}abc{{ messages[1].role }}{% endfilter %}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}",
    "{% for m in messages | reject('none') %}{{ m.role[:1] }}{% endfor %}{% for i in range(2) %}{% for j in range(2) %}{{ loop.index }}{{ i }}{% endfor %}{% endfor %}",
    "{% for m in messages recursive %}{{ m.role }}{% if loop.depth > 1 %}!{% endif %}{% endfor %}",
    "{{ '' if loop is defined else 'no loop' }}{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<' + message['role'] + '>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}",
    "{% set ns = namespace(last=-1) %}{% for m in messages[::-1] %}{% set i = (messages|length - 1) - loop.index0 %}{% if ns.last == -1 and m.role == 'user' %}{% set ns.last = i %}{% endif %}{% endfor %}{{ ns.last }}",
    "{% set lines = 'a\\nb\\r\\nc'.splitlines() %}{{ lines }}{% set x = lines | join('|') %}{{ x }}",
    "{% call(x) outer() %}{{ x }}{% endcall %}{% macro outer() %}[{{ caller(3) }}]{% endmacro %}",
    "{% macro outer() %}[{{ caller('y') }}]{% endmacro %}{% call(x) outer() %}{{ x }}{% endcall %}",
    "{% if messages[0]['role'] == 'user' %}{{ raise_exception('first ' + messages[0]['role']) }}{% endif %}ok",
    "{% if (messages[1]['role'] == 'user') != (1 % 2 == 0) %}differs{% endif %}{{ 1 if not (2 == 2 and 1 == 2) else 0 }}",
    "{%- set default_system = \"You're it.\" -%}{%- if messages and messages[0]['role'] != 'system' -%}{{ default_system }}{%- endif -%}{{ messages[0].content }}",
    "{{ messages[0].content.split(' ')[1] }}{{ (messages[1].content | trim).split('i') | length }}{{ messages[2].tool_calls[0].id[:2] }}",
    "{% for tc in messages[2].tool_calls %}{% set f = tc.function %}{{ '{\"name\": \"' ~ f.name ~ '\", \"arguments\": ' }}{{ f.arguments | tojson }}{{ '}' }}{% endfor %}",
    "{% set xs = [] %}{% for m in messages %}{% set xs = xs + [m.role] %}{% endfor %}{{ xs }}",
    "{{- bos_token }}\n{%- for m in messages %}\n{{ '[' ~ m.role ~ ']' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n{{- '[go]' }}\n{%- endif %}\n",
    "{% if true %}unclosed", "{{ 1 + }}", "{% nosuchtag %}", "{{ messages[0] ",
]

def case(source, messages=CHAT, **extra):
    out = {"source": source} | ({} if messages is CHAT else {"messages": messages}) | ({"extra": extra} if extra else {})
    args = {"tools": TOOLS, "add_generation_prompt": True, **extra}
    try: out["text"] = render_jinja_template(conversations=[messages], chat_template=source, bos_token="<s>", eos_token="</s>", **args)[0][0]
    except Exception as e: out["error"] = type(e).__name__ + ": " + str(e)[:200]
    return out

cases = [case("{{ " + e + " }}") for e in EXPRESSIONS + ERRORS] + [case(t) for t in TEMPLATES]
cases += [case("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}{{ messages[0] | tojson }}", [A("x", **{k: "r"})]) for k in ("reasoning", "thinking", "reasoning_content")]
cases += [case("{% for m in messages %}<{{ m.contentX }}>{% endfor %}".replace("X", f), [U("q"), A(c)], continue_final_message=True, add_generation_prompt=False) for f in ("", " | trim") for c in ("so far ", "so far", "  ", [{"type": "text", "text": "a"}])]
json.dump({"messages": CHAT, "tools": TOOLS, "cases": cases}, open(sys.argv[1], "w"), ensure_ascii=False, indent=0)
for c in cases:
    if "error" in c and c["source"][3:-3] in EXPRESSIONS: print("error:", c["source"], c["error"], file=sys.stderr)
print(len(cases), sum("error" in c for c in cases), file=sys.stderr)
