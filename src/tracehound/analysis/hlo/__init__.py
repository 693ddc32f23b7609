"""What is known of HLO ops: their executions, costs, groups and buffers."""
