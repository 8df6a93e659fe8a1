"""Classes of messages: what differs from input to input leaves them, and what tells mistakes apart stays."""

from __future__ import annotations

from safetensors_reports.text import difference_class, message_class


def test_kinds_of_messages_and_differences() -> None:
    assert message_class("bad tensor w: [1, 2, 3]", ["w"]) == "bad tensor #: [#]"
    assert message_class("Error: tensor 'a' ends at 12, \"b\" at 4") == "Error: tensor # ends at #, # at #"
    assert difference_class('tensor "metadata": dtype U8, the file says F8_E4M3') == "dtype"
    assert difference_class('metadata "dtype" is missing') == "metadata"
    assert difference_class('tensor "\\"shape\\": x": shape [1], the file says [2]') == "shape"
    assert difference_class('tensor "dtype" is missing') == "missing"
    assert difference_class('tensor "a" is reported twice') == "twice"
    assert difference_class('tensor "a" is reported, the file has none of that name') == "reported"
