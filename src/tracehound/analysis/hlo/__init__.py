"""HLO ops: their executions, costs, groups and buffers."""
