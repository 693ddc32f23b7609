"""HLO protos: instructions, shapes, costs, buffers."""
