"""Two hundred texts that would run, load or pretend something if a page treated them as anything but text."""

from itertools import product
from typing import Final

# Their effect: tests look for `owned`.
_DEEDS: Final = (
    "window.owned=1",
    "document.title='owned'",
    "fetch('http://127.0.0.1:9/owned')",
    "location='javascript:window.owned=1'",
)
_SHELLS: Final = (
    "<script>{}</script>",
    "</textarea><script>{}</script>",
    '<img src=x onerror="{}">',
    '<svg onload="{}">',
    '<svg><animate onbegin="{}" attributeName=x dur=1s>',
    '<iframe srcdoc="<script>parent.{}</script>"></iframe>',
    '<a href="javascript:{}" autofocus onfocus="{}">x</a>',
    '<input autofocus onfocus="{}">',
    '<details open ontoggle="{}">',
    '<video><source onerror="{}"></video>',
    '<body onload="{}">',
    "<style>@import '//127.0.0.1:9/{}'</style>",
    '<link rel=stylesheet href="data:text/css,{}">',
    '<meta http-equiv=refresh content="0;url=javascript:{}">',
    '<object data="javascript:{}"></object>',
    '<form action="javascript:{}"><button autofocus>',
    '<math><mtext></mtext><mglyph><style><img src=x onerror="{}">',
    "<template><script>{}</script></template>",
    '"><img src=x onerror={}>',
    "' onmouseover='{}' x='",
    "javascript:{}",
    "data:text/html,<script>{}</script>",
    "${{{}}}",
    "{{{{constructor.constructor('{}')()}}}}",
    "`;{};`",
    '\\";{};//',
    "--><script>{}</script><!--",
    "]]><script>{}</script>",
    "%3Cscript%3E{}%3C/script%3E",
    "&lt;script&gt;{}&lt;/script&gt;",
    "&#60;script&#62;{}&#60;/script&#62;",
    "\\u003cscript\\u003e{}\\u003c/script\\u003e",
    "<scr<script>ipt>{}</scr</script>ipt>",
    "<SCRIPT SRC=//127.0.0.1:9/{}></SCRIPT>",
    "<img/src=x/onerror={}>",
    '<x contenteditable onblur="{}">lose focus</x>',
    '<marquee onstart="{}">',
    '<base href="javascript:{}//">',
    '<use href="data:image/svg+xml,<svg onload={}>">',
    '__proto__ constructor toString <b onclick="{}">',
    "\u202e<script>{}</script>\u202c",
    "\ufeff<script>{}</script>",
    '<div style="background:url(javascript:{})">',
    '<button popovertarget=x onclick="{}">',
    '`<img src=x onerror="{}">`',
    "``<script>{}</script>",
    '{{"command": "<img src=x onerror={}>"}}',
    'Bash {{"command": "<script>{}</script>"}}',
    "/?session=<script>{}</script>#code={}",
    "a{}b" + "́" * 40,
)
HOSTILE_TEXTS: Final = tuple(
    shell.format(*([deed] * shell.count("{}"))) for shell, deed in product(_SHELLS, _DEEDS)
)
assert len(set(HOSTILE_TEXTS)) == 200, "two hundred, each its own"
