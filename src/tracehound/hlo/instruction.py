"""One instruction of HLO: what its proto says of it.

Owns the field numbers of HloInstructionProto that nothing but its page shows. Knows no other instruction.
"""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from tracehound.formats.hlo.fields import Message
from tracehound.formats.hlo.instructions import OP_NAME, category_of
from tracehound.formats.hlo.located import FUSION_KIND, METADATA, NAME, OPCODE, SHAPE, TARGET
from tracehound.formats.hlo.shape import Shape, shape_of
from tracehound.formats.hlo.text import COLLECTIVES

LITERAL, PARAMETER, TUPLE_INDEX, DIMENSIONS, PREDECESSORS, SHARDING, BACKEND = 8, 9, 13, 14, 37, 40, 43
ATTRIBUTES, ASYNC_THREAD = 68, 79


class Instruction(Struct, frozen=True, dict=True):
    """One instruction; `fields` is its proto."""

    row: int
    fields: Message

    @cached_property
    def name(self) -> str:
        """Without the ``%`` that HLO writes before it."""
        return self.fields.text(NAME)

    @cached_property
    def opcode(self) -> str:
        """``fusion``, ``all-reduce-start``."""
        return self.fields.text(OPCODE)

    @cached_property
    def shape(self) -> Shape:
        """Of its result."""
        return shape_of(self.fields.one(SHAPE))

    @property
    def fusion_kind(self) -> str:
        """``kLoop``; nothing where it is no fusion."""
        return self.fields.text(FUSION_KIND)

    @property
    def category(self) -> str:
        """The category as XProf names it."""
        return category_of(self.opcode, self.fusion_kind)

    @property
    def target(self) -> str:
        """What a custom call calls."""
        return self.fields.text(TARGET)

    @property
    def backend_config(self) -> str:
        """What the backend was told, which is JSON on most."""
        return self.fields.text(BACKEND)

    @cached_property
    def metadata(self) -> Message | None:
        """Where it comes from: OpMetadata."""
        return self.fields.one(METADATA)

    @property
    def op_name(self) -> str:
        """The framework's name of it: ``jit(step)/layer0/dot_general``."""
        return self.metadata.text(OP_NAME) if self.metadata else ""

    @property
    def attributes(self) -> dict[str, str]:
        """What the framework attached to it."""
        attached = self.fields.one(ATTRIBUTES)
        return attached.pairs(1) if attached else {}

    @property
    def collective(self) -> str:
        """``all-reduce`` of ``all-reduce-start``, too; nothing of an op that is no collective."""
        bare = self.opcode.removesuffix("-start").removesuffix("-done")
        return bare if bare in COLLECTIVES else ""
